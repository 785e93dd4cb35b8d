#include "starling/runtime/verify/verify.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/step_testing.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/saved_tensors.h"
#include "starling/ops/def/registry.h"
#include "starling/runtime/verify/verify_run.h"

namespace starling::runtime {
namespace {

using testing::Bench;

graph::TraceFn step_of(Bench& bench) {
  return [&bench](std::span<const Tensor> in) { return TensorList{bench.step(in[0], in[1])}; };
}

// A pass that leaves out the nodes of one op, as one would that takes them for identities.
template <const char* op>
graph::Graph dropped(const graph::Graph& graph, const graph::PassContext&) {
  graph::Rewriter rewriter(graph);
  for (graph::NodeId id = 0; id < graph.size(); ++id) {
    const graph::Node& node = graph.node(id);
    if (is_op(node, op))
      rewriter.set(node.out[0], rewriter.map(node.in[0]));
    else
      rewriter.copy(id);
  }
  return rewriter.finish();
}

constexpr char kTanh[] = "tanh";
constexpr char kSoftmax[] = "softmax";

std::vector<graph::Pass> with_broken_pass(std::size_t place, const graph::Pass& broken) {
  std::vector<graph::Pass> passes = graph::all_passes();
  passes.insert(passes.begin() + static_cast<std::ptrdiff_t>(place), broken);
  return passes;
}

TEST(Verify, AHealthyStepPassesAndListsLossParametersAndTheirState) {
  Bench bench("lenet", 3, DType::f32);
  const Tensor arguments[] = {bench.x, bench.y};
  const VerifyReport report = verify_step(step_of(bench), arguments, {.outputs = {"loss"}});
  EXPECT_TRUE(report.ok()) << report.print();
  EXPECT_TRUE(report.fault.stage.empty());
  ASSERT_FALSE(report.rows.empty());
  EXPECT_EQ(report.rows[0].name, "loss");
  EXPECT_GT(report.rows[0].eager_fp64, 0);  // f32 rounds
  EXPECT_LT(report.rows[0].eager_fp64, 1e-5);
  const auto has = [&](const std::string& name) {
    return std::any_of(report.rows.begin(), report.rows.end(), [&](const VerifyRow& row) { return row.name == name; });
  };
  EXPECT_TRUE(has("fc1.weight"));
  EXPECT_TRUE(has("fc1.weight.velocity"));
}

TEST(Verify, AStepThatActsOnFilesIsRefused) {
  const Tensor x = full({2}, 1.0);
  const graph::TraceFn step = [](std::span<const Tensor> in) {
    save("never-written.safetensors", {"x"}, TensorList{in[0]});
    return TensorList{in[0] * 2.0};
  };
  try {
    verify_step(step, {&x, 1}, {});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("acts on its variables alone, got save"), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists("never-written.safetensors"));
}

TEST(Verify, NetworksOfEveryKindPass) {
  for (const char* name : {"lstm", "gpt", "resnet18"}) {
    const zoo::Sized known = zoo::nets().small(name);
    const zoo::Recipe recipe = known.net.make();
    manual_seed(5);
    const auto net = recipe.make();
    optim::Sgd optimizer(net->parameters(), {.lr = 0.01, .momentum = 0.9});
    const TensorList batch = zoo::random_batch(recipe, known.batch);
    const std::vector<Tensor> arguments(batch.begin(), batch.end());
    const auto step = [&](std::span<const Tensor> in) {
      const Tensor loss = zoo::loss(recipe, *net, in);
      loss.backward();
      optimizer.step();
      return TensorList{loss};
    };
    const VerifyReport report = verify_step(step, arguments);
    EXPECT_TRUE(report.ok()) << name << "\n" << report.print();
  }
}

TEST(Verify, InF64EagerCompiledAndFp64AreTheSameTo1e11) {
  Bench bench("sae_small", 2, DType::f64);
  const Tensor arguments[] = {bench.x, bench.y};
  const VerifyReport report = verify_step(step_of(bench), arguments);
  EXPECT_TRUE(report.ok()) << report.print();
  EXPECT_EQ(report.tolerance, 1e-11);
}

TEST(Verify, LeavesParametersStateAndSlotsAsTheyWere) {
  Bench bench("sae_small", 2, DType::f32);
  const Tensor weight = bench.net.parameters()[0];
  const auto before = weight.to_vector();
  const auto key = default_generator().key().to_vector();
  const Tensor arguments[] = {bench.x, bench.y};
  verify_step(step_of(bench), arguments);
  EXPECT_EQ(weight.to_vector(), before);
  EXPECT_EQ(default_generator().key().to_vector(), key);
  EXPECT_FALSE(weight.grad().defined());
}

TEST(Verify, DropoutDrawsTheSameNumbersInAllThree) {
  Tensor w = cast(normal({8, 8}), DType::f32);
  w.set_name("w");
  w.set_requires_grad(true);
  const Tensor x = normal({4, 8});
  const auto f = [&](std::span<const Tensor> in) {
    const Tensor loss = sum(dropout(linear(in[0], w), 0.5));
    loss.backward();
    return TensorList{loss};
  };
  const VerifyReport report = verify_step(f, {&x, 1});
  EXPECT_TRUE(report.ok()) << report.print();
  const auto slot =
      std::find_if(report.rows.begin(), report.rows.end(), [](const VerifyRow& row) { return row.name == "w.grad"; });
  ASSERT_NE(slot, report.rows.end()) << report.print();
}

TEST(Verify, ABrokenPassIsNamedWhereverItStandsTogetherWithTheFirstNodeThatDiffers) {
  for (std::size_t place : {std::size_t{0}, std::size_t{4}, graph::all_passes().size()}) {
    Bench bench("lenet", 2, DType::f32);
    const Tensor arguments[] = {bench.x, bench.y};
    VerifyOptions options;
    options.passes = with_broken_pass(place, {.name = "drop_tanh", .doc = "leaves out tanh", .run = dropped<kTanh>});
    const VerifyReport report = verify_step(step_of(bench), arguments, options);
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(report.fault.stage, "drop_tanh") << "at place " << place << "\n" << report.print();
    EXPECT_EQ(report.fault.row, "output 0");
    EXPECT_NE(report.fault.node.find("conv2"), std::string::npos) << report.fault.node;
    EXPECT_NE(report.print().find("first wrong after: drop_tanh"), std::string::npos) << report.print();
  }
}

TEST(Verify, APassThatBreaksOnlyOneResultNamesThatResult) {
  const Tensor x = normal({3, 5});
  const auto f = [](std::span<const Tensor> in) { return TensorList{relu(in[0]), softmax(in[0]), tanh(in[0])}; };
  VerifyOptions options{.outputs = {"positive", "shares", "bounded"}};
  options.passes = with_broken_pass(3, {.name = "drop_softmax", .doc = "leaves out softmax", .run = dropped<kSoftmax>});
  const VerifyReport report = verify_step(f, {&x, 1}, options);
  EXPECT_EQ(report.fault.stage, "drop_softmax");
  EXPECT_EQ(report.fault.row, "shares");
  EXPECT_FALSE(report.rows[0].differs);
  EXPECT_TRUE(report.rows[1].differs);
  EXPECT_FALSE(report.rows[2].differs);
}

TEST(Verify, AFunctionThatDoesSomethingElseWhenTracedIsBlamedOnTheTrace) {
  const Tensor x = normal({4});
  const auto f = [](std::span<const Tensor> in) { return TensorList{in[0].traced() ? neg(in[0]) : square(in[0])}; };
  const VerifyReport report = verify_step(f, {&x, 1});
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(report.fault.stage, "trace");
}

Tensor tensor_of(std::vector<double> values, DType dtype) {
  return from_doubles(values, {static_cast<std::int64_t>(values.size())}, dtype);
}

TEST(Verify, DistancesSeeNansAndAllowForTheRoundingOfWhatIsUpdated) {
  const Tensor a = tensor_of({1, 2}, DType::f32), no_number = tensor_of({1, NAN}, DType::f32);
  EXPECT_EQ(relative_distance(a, a), 0);
  EXPECT_EQ(relative_distance(no_number, no_number), 0);
  EXPECT_TRUE(std::isinf(relative_distance(no_number, a)));
  const Tensor before = tensor_of({1}, DType::f64), moved = tensor_of({1.001}, DType::f64),
               other = tensor_of({1.002}, DType::f64);
  EXPECT_NEAR(update_distance(other, moved, before, 0), 1, 1e-9);
  EXPECT_LT(update_distance(other, moved, before, 1), 1.1e-3);
}

}  // namespace
}  // namespace starling::runtime
