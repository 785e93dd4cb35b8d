// Every kind of layer with its defaults: eager equals compiled, state goes out and in, modes and settings behave.
#include "starling/nn/layer_kinds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "starling/kernels/eager.h"
#include "starling/starling.h"
#include "testing/temporary_folder.h"

namespace starling {
namespace {

using testing::error_of;

struct Need {
  std::string options = "{}";                // options without defaults
  std::vector<Shape> samples = {{4, 6, 6}};  // without the batch
  std::int64_t ids = 0;                      // inputs are ids below this
};

// Lines [c, l], images [c, h, w], volumes, sequences [t, width], vectors.
const std::map<std::string, Need>& needs() {
  const std::string list = "[{linear: {out: 4}}]";
  static const std::map<std::string, Need> kNeeds = {
      {"conv1d", {"{out: 3}", {{4, 6}}}},
      {"conv2d", {"{out: 3}"}},
      {"conv3d", {"{out: 2}", {{2, 4, 4, 4}}}},
      {"conv_transpose1d", {"{out: 3}", {{4, 6}}}},
      {"conv_transpose2d", {"{out: 3}"}},
      {"conv_transpose3d", {"{out: 2}", {{2, 3, 3, 3}}}},
      {"locally_connected2d", {"{out: 3}"}},
      {"linear", {"{out: 3}", {{5}}}},
      {"bilinear", {"{out: 3}", {{5}, {4}}}},
      {"embedding", {"{vocabulary: 9, width: 3}", {{6}}, 9}},
      {"embedding_bag", {"{vocabulary: 9, width: 3}", {{6}}, 9}},
      {"reshape", {"{shape: [-1]}"}},
      {"permute", {"{order: [2, 0, 1]}"}},
      {"narrow", {"{}"}},
      {"fold", {"{size: 6}", {{18, 16}}}},
      {"batch_norm1d", {"{}", {{4, 6}}}},
      {"batch_norm3d", {"{}", {{2, 3, 3, 3}}}},
      {"max_pool1d", {"{}", {{4, 6}}}},
      {"avg_pool1d", {"{}", {{4, 6}}}},
      {"lp_pool1d", {"{}", {{4, 6}}}},
      {"adaptive_max_pool1d", {"{}", {{4, 6}}}},
      {"adaptive_avg_pool1d", {"{}", {{4, 6}}}},
      {"max_pool3d", {"{}", {{2, 4, 4, 4}}}},
      {"avg_pool3d", {"{}", {{2, 4, 4, 4}}}},
      {"lp_pool3d", {"{}", {{2, 4, 4, 4}}}},
      {"adaptive_max_pool3d", {"{}", {{2, 4, 4, 4}}}},
      {"adaptive_avg_pool3d", {"{}", {{2, 4, 4, 4}}}},
      {"rnn", {"{hidden: 4}", {{5, 3}}}},
      {"gru", {"{hidden: 4}", {{5, 3}}}},
      {"lstm", {"{hidden: 4}", {{5, 3}}}},
      {"rnn_cell", {"{hidden: 4}", {{3}}}},
      {"gru_cell", {"{hidden: 4}", {{3}}}},
      {"lstm_cell", {"{hidden: 4}", {{3}}}},
      {"self_attention", {"{}", {{5, 8}}}},
      {"multi_head_attention", {"{}", {{5, 8}, {3, 6}}}},
      {"transformer_encoder_layer", {"{}", {{5, 8}}}},
      {"transformer_encoder", {"{}", {{5, 8}}}},
      {"transformer_decoder_layer", {"{}", {{5, 8}, {3, 8}}}},
      {"transformer_decoder", {"{}", {{5, 8}, {3, 8}}}},
      {"learned_positions", {"{}", {{5, 8}}}},
      {"sinusoidal_positions", {"{}", {{5, 8}}}},
      {"rotary", {"{}", {{5, 8}}}},
      {"residual", {"{body: " + list + "}", {{4}}}},
      {"parallel", {"{branches: [" + list + ", []]}", {{4}}}},
      {"repeat", {"{times: 2, layers: " + list + "}", {{4}}}},
      {"sequential", {"{layers: " + list + "}", {{4}}}},
      {"add", {"{}", {{4, 6}, {4, 6}}}},
      {"mul", {"{}", {{4, 6}, {4, 1}}}},
      {"sub", {"{}", {{4, 6}, {4, 6}}}},
      {"concat", {"{}", {{4, 6}, {2, 6}}}},
  };
  return kNeeds;
}

Need need_of(const std::string& kind) {
  const auto found = needs().find(kind);
  return found == needs().end() ? Need{} : found->second;
}

// A kind of layer and what it is tried with.
struct Tried {
  std::string kind;
  Need need;

  std::shared_ptr<nn::Module> make() const {
    std::vector<TensorType> samples;
    for (const auto& shape : need.samples) samples.push_back({need.ids > 0 ? DType::i64 : DType::f32, shape});
    const auto options = ConfigNode::parse(need.options, "job.yaml");
    const auto layer = nn::layer_kinds().choose_named(kind, options, options).make()(samples);
    layer->to(DType::f64);
    return layer;
  }
  std::vector<Tensor> inputs(std::int64_t batch = 3) const {
    std::vector<Tensor> all;
    for (Shape shape : need.samples) {
      shape.insert(0, batch);
      all.push_back(need.ids > 0 ? randint(shape, {.high = need.ids}) : normal(shape, {.dtype = DType::f64}));
    }
    return all;
  }
};

// Tries every kind; an exception of one does not stop the others.
template <class F>
void for_each_kind(F&& f) {
  for (const auto& kind : nn::layer_kinds().names()) {
    SCOPED_TRACE(kind);
    manual_seed(7);
    try {
      f(Tried{kind, need_of(kind)});
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

std::vector<double> values_of(const TensorList& list) {
  std::vector<double> all;
  for (const auto& tensor : list) {
    for (const double v : tensor.to_vector()) all.push_back(v);
  }
  return all;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-9) << what << " " << i;
}

// Outputs, and gradients of their sum of squares in parameters.
struct Outcome {
  std::vector<double> out, grads;
};

Outcome run(nn::Module& layer, const std::vector<Tensor>& in, bool compiled) {
  const auto step = [&](std::span<const Tensor> xs) {
    TensorList out = layer(xs);
    if (!layer.parameters().empty()) sum(square(out[0])).backward();
    return out;
  };
  const SiteCounts sites;  // the noise of the first call, both times
  CompiledFunction program(step, {});
  Outcome result;
  result.out = values_of(compiled ? program.call(in) : step(in));
  for (const auto& parameter : layer.parameters()) {
    if (!parameter.grad().defined()) continue;
    for (const double v : parameter.grad().to_vector()) result.grads.push_back(v);
    parameter.set_grad(Tensor());
  }
  return result;
}

TEST(EveryLayer, ComputesTheSameEagerAndCompiledInBothModes) {
  for_each_kind([](const Tried& tried) {
    for (const bool training : {true, false}) {
      const auto a = tried.make(), b = tried.make();
      b->load_state(a->state());
      const auto in = tried.inputs();
      a->train(training);
      b->train(training);
      const Outcome eager = run(*a, in, false), compiled = run(*b, in, true);
      EXPECT_FALSE(eager.out.empty());
      expect_near(eager.out, compiled.out, training ? "training" : "eval");
      expect_near(eager.grads, compiled.grads, "gradients");
      for (std::size_t i = 0; i < a->buffers().size(); ++i)
        expect_near(a->buffers()[i].to_vector(), b->buffers()[i].to_vector(), "buffers");
    }
  });
}

// Derivative along a random direction of all parameters and inputs, by differences.
TEST(EveryLayer, HasGradientsThatAgreeWithDifferences) {
  int tried_with_leaves = 0;
  for_each_kind([&](const Tried& tried) {
    const auto layer = tried.make();
    layer->eval();
    auto in = tried.inputs();
    std::vector<Tensor> leaves = layer->parameters();
    for (auto& x : in) {
      if (is_float(x.dtype())) leaves.push_back(x.set_requires_grad());
    }
    const auto output = [&] { return (*layer)(std::span<const Tensor>(in))[0]; };
    const Tensor weights = normal(output().shape(), {.dtype = DType::f64});
    const auto loss = [&] { return sum(mul(output(), weights)); };
    loss().backward();
    double slope = 0;
    std::vector<Tensor> directions;
    for (const auto& leaf : leaves) {
      directions.push_back(normal(leaf.shape(), {.dtype = DType::f64}));
      if (leaf.grad().defined()) slope += sum(mul(leaf.grad(), directions.back())).item();
    }
    const NoGrad no_grad;
    const auto moved_by = [&](double step) {
      for (std::size_t i = 0; i < leaves.size(); ++i) assign(leaves[i], add(leaves[i], mul(directions[i], step)));
      return loss().item();
    };
    constexpr double kStep = 1e-6;
    const double after = moved_by(kStep), before = moved_by(-2 * kStep);
    EXPECT_NEAR(slope, (after - before) / (2 * kStep), 1e-6 * (1 + std::abs(slope)));
    tried_with_leaves += slope != 0;
  });
  EXPECT_GT(tried_with_leaves, 80);
}

TEST(EveryLayer, GivesItsStateToAnotherOne) {
  for_each_kind([](const Tried& tried) {
    const auto a = tried.make(), b = tried.make();
    const auto in = tried.inputs();
    a->eval();
    b->eval();
    const auto report = b->load_state(a->state());
    EXPECT_TRUE(report.complete());
    EXPECT_EQ(report.loaded, a->state().size());
    EXPECT_EQ(values_of((*a)(std::span<const Tensor>(in))), values_of((*b)(std::span<const Tensor>(in))));
  });
}

TEST(EveryLayer, EvalModeHasNoNoiseAndMovesNothing) {
  for_each_kind([](const Tried& tried) {
    const auto layer = tried.make();
    const auto in = tried.inputs();
    layer->eval();
    const auto state = [&] {
      std::vector<double> all;
      for (const auto& [name, tensor] : layer->state()) {
        for (const double v : tensor.to_vector()) all.push_back(v);
      }
      return all;
    };
    const auto before = state(), first = values_of((*layer)(std::span<const Tensor>(in)));
    EXPECT_EQ(values_of((*layer)(std::span<const Tensor>(in))), first);
    EXPECT_EQ(state(), before);
  });
}

TEST(EveryLayer, EachSampleIsComputedByItselfInEvalMode) {
  for_each_kind([](const Tried& tried) {
    const auto layer = tried.make();
    const auto in = tried.inputs();
    layer->eval();
    const Tensor whole = (*layer)(std::span<const Tensor>(in))[0];
    std::vector<Tensor> last;
    for (const auto& x : in) last.push_back(kernels::densify(narrow(x, 0, 2, 1)));
    const Tensor one = (*layer)(std::span<const Tensor>(last))[0];
    expect_near(narrow(whole, 0, 2, 1).to_vector(), one.to_vector(), "the last sample");
  });
}

TEST(EveryLayer, IsInferredAsItRuns) {
  for_each_kind([](const Tried& tried) {
    const auto layer = tried.make();
    const auto in = tried.inputs();
    std::vector<TensorType> types;
    for (const auto& x : in) types.push_back(x.type());
    const TensorList out = (*layer)(std::span<const Tensor>(in));
    const auto inferred = nn::output_types(*layer, types);
    EXPECT_EQ(inferred.at(0), out[0].type());
    const nn::Summary table = nn::summary(*layer, types);
    EXPECT_EQ(table.outputs.at(0), out[0].type());
    EXPECT_EQ(table.parameters, layer->parameter_count());
  });
}

TEST(EveryLayer, PrintsItsSettingsSoThatTheyReadBackTheSame) {
  for_each_kind([](const Tried& tried) {
    const auto& kinds = nn::layer_kinds();
    const auto options = ConfigNode::parse(tried.need.options, "job.yaml");
    const auto chosen = kinds.choose_named(tried.kind, options, options);
    const auto again = ConfigNode::parse(chosen.json().dump(), "printed.yaml");
    EXPECT_EQ(kinds.choose_named(tried.kind, again, again).json(), chosen.json());
    EXPECT_FALSE(chosen.kind->doc.empty());
    for (const auto& setting : chosen.kind->settings) EXPECT_FALSE(setting.doc.empty()) << setting.key;
    const auto wrong = ConfigNode::parse("{no_such_option: 1}", "job.yaml");
    EXPECT_NE(error_of([&] { kinds.choose_named(tried.kind, wrong, wrong); }).find("job.yaml:1:2"), std::string::npos);
  });
}

}  // namespace
}  // namespace starling
