#include "starling/nn/state.h"

#include <gtest/gtest.h>

#include "starling/starling.h"
#include "testing/temporary_folder.h"

namespace starling {
namespace {

using testing::error_of;

nn::Sequential small() {
  nn::Sequential net;
  net.add("fc1", nn::Linear({.in = 3, .out = 4}))
      .add("norm", nn::BatchNorm1d({.channels = 4}))
      .add("fc2", nn::Linear({.in = 4, .out = 2}));
  return net;
}

std::vector<std::string> names(const nn::NamedTensors& named) {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : named) all.push_back(name);
  return all;
}

TEST(State, HoldsParametersThenBuffersByPath) {
  auto net = small();
  EXPECT_EQ(names(net.state()),
            (std::vector<std::string>{"fc1.weight", "fc1.bias", "norm.weight", "norm.bias", "fc2.weight", "fc2.bias",
                                      "norm.running_mean", "norm.running_var"}));
}

TEST(State, LoadedIntoAnotherNetworkMakesItComputeTheSame) {
  manual_seed(1);
  auto a = small(), b = small();
  const Tensor x = normal({5, 3});
  a(x);  // moves the statistics
  a.eval();
  b.eval();
  EXPECT_NE(a(x).to_vector(), b(x).to_vector());
  const auto before = b.parameters();
  EXPECT_TRUE(b.load_state(a.state()).complete());
  EXPECT_EQ(a(x).to_vector(), b(x).to_vector());
  EXPECT_TRUE(same(before[0], b.parameters()[0])) << "copied into the same tensors";
  EXPECT_TRUE(b.parameters()[0].requires_grad());
}

TEST(State, ConvertsFloats) {
  manual_seed(1);
  auto a = small(), b = small();
  a.to(DType::f64);
  b.load_state(a.state());
  EXPECT_EQ(b.parameters()[0].dtype(), DType::f32);
  EXPECT_NEAR(b.parameters()[0].to_vector()[0], a.parameters()[0].to_vector()[0], 1e-7);
}

// A state with a missing, an unexpected and a mis-shaped entry.
nn::NamedTensors spoiled(const nn::Sequential& net) {
  nn::NamedTensors state;
  for (const auto& [name, tensor] : net.state()) {
    if (name == "fc1.bias") continue;
    state.emplace_back(name == "fc2.bias" ? "fc2.bais" : name, name == "fc2.weight" ? zeros({5, 4}) : tensor);
  }
  return state;
}

TEST(State, StrictLoadingNamesAllThatDoesNotFitAndWritesNothing) {
  manual_seed(1);
  auto a = small(), b = small();
  const auto before = b.parameters()[0].to_vector();
  const std::string error = error_of([&] { b.load_state(spoiled(a)); });
  EXPECT_NE(error.find("missing fc1.bias"), std::string::npos) << error;
  EXPECT_NE(error.find("missing fc2.bias"), std::string::npos) << error;
  EXPECT_NE(error.find("unexpected fc2.bais"), std::string::npos) << error;
  EXPECT_NE(error.find("misfit fc2.weight: expected f32[2, 4], got f32[5, 4]"), std::string::npos) << error;
  EXPECT_EQ(b.parameters()[0].to_vector(), before);
}

TEST(State, LenientLoadingTakesWhatFitsAndReportsTheRest) {
  manual_seed(1);
  auto a = small(), b = small();
  const auto report = b.load_state(spoiled(a), {.strict = false});
  EXPECT_EQ(report.loaded, 5U);
  EXPECT_EQ(report.missing, (std::vector<std::string>{"fc1.bias", "fc2.bias"}));
  EXPECT_EQ(report.unexpected, (std::vector<std::string>{"fc2.bais"}));
  ASSERT_EQ(report.misfits.size(), 1U);
  EXPECT_EQ(report.misfits[0].name, "fc2.weight");
  EXPECT_FALSE(report.complete());
  EXPECT_EQ(b.parameters()[0].to_vector(), a.parameters()[0].to_vector());
  EXPECT_NE(report.print().find("5 loaded"), std::string::npos);
}

TEST(State, OfAPartGoesIntoAPart) {
  manual_seed(1);
  auto part = small();
  nn::Sequential whole;
  whole.add("body", small()).add("head", nn::Linear({.in = 2, .out = 1}));
  const auto head = whole.named_parameters().back().second.to_vector();
  EXPECT_TRUE(whole.load_state(part.state(), {.to = "body."}).complete());
  EXPECT_EQ(whole.parameters()[0].to_vector(), part.parameters()[0].to_vector());
  EXPECT_EQ(whole.named_parameters().back().second.to_vector(), head);
  auto other = small();
  EXPECT_TRUE(other.load_state(whole.state(), {.from = "body."}).complete());
  EXPECT_EQ(other.parameters()[0].to_vector(), part.parameters()[0].to_vector());
  EXPECT_THROW(other.load_state(whole.state()), Error) << "names without the prefix are others";
}

TEST(State, RefusesIntegersForFloatsAndNamesTwice) {
  auto net = small();
  nn::NamedTensors state = net.state();
  state[0].second = zeros({4, 3}, DType::i64);
  EXPECT_NE(error_of([&] { net.load_state(state); }).find("i64[4, 3]"), std::string::npos);
  state = net.state();
  state.push_back(state[0]);
  EXPECT_NE(error_of([&] { net.load_state(state); }).find("twice"), std::string::npos);
}

TEST(Module, FindsSubmodulesByPath) {
  nn::Sequential whole;
  whole.add("body", small()).add("head", nn::Linear({.in = 2, .out = 1}));
  EXPECT_EQ(whole.find("body.fc2").kind(), "Linear");
  EXPECT_EQ(whole.find("body.norm").kind(), "BatchNorm1d");
  EXPECT_NE(error_of([&] { whole.find("body.fc3"); }).find("did you mean 'fc"), std::string::npos);
  std::vector<std::string> paths, kinds;
  for (const auto& [path, module] : whole.named_modules()) paths.push_back(path);
  whole.apply([&](nn::Module& module) { kinds.push_back(module.kind()); });
  EXPECT_EQ(paths, (std::vector<std::string>{"", "body", "body.fc1", "body.norm", "body.fc2", "head"}));
  EXPECT_EQ(kinds, (std::vector<std::string>{"Sequential", "Sequential", "Linear", "BatchNorm1d", "Linear", "Linear"}));
  EXPECT_EQ(whole.children().size(), 2U);
}

TEST(Module, RefusesNamesTwiceAndWithDots) {
  nn::Sequential net;
  net.add("a", nn::Relu());
  EXPECT_THROW(net.add("a", nn::Relu()), Error);
  EXPECT_THROW(net.add("b.c", nn::Relu()), Error);
  EXPECT_THROW(net.add("", nn::Relu()), Error);
}

TEST(Module, FrozenParametersGetNoGradientAlsoInFunctionsCompiledBefore) {
  manual_seed(1);
  auto net = small();
  auto step = compile([&](const Tensor& x) {
    const Tensor loss = sum(net(x));
    loss.backward();
    return loss;
  });
  const Tensor x = normal({5, 3});
  step(x);
  const auto all = net.parameters();
  for (const auto& p : all) {
    EXPECT_TRUE(p.grad().defined()) << p.name();
    p.set_grad(Tensor());
  }
  net.find("fc1").freeze();
  EXPECT_EQ(net.trainable_parameters().size(), all.size() - 2);
  step(x);
  EXPECT_FALSE(all[0].grad().defined());
  EXPECT_TRUE(all[4].grad().defined());
  for (const auto& p : all) p.set_grad(Tensor());
  net.unfreeze();
  step(x);
  EXPECT_TRUE(all[0].grad().defined());
}

class Tied : public nn::Module {
 public:
  Tied() {
    embed_ = add_module("embed", std::make_shared<nn::Embedding>(nn::EmbeddingOptions{.vocabulary = 5, .width = 3}));
    head_ = &add_parameter("head", embed_->weight());
  }

 protected:
  Tensor forward(const Tensor& ids) override { return linear((*embed_)(ids), *head_); }

 private:
  std::shared_ptr<nn::Embedding> embed_;
  Tensor* head_;
};

TEST(Module, ASharedParameterIsOneParameter) {
  Tied net;
  ASSERT_EQ(net.parameters().size(), 1U);
  EXPECT_EQ(net.named_parameters()[0].first, "head") << "the name that comes first";
  EXPECT_EQ(net.parameter_count(), 15);
  net.to(DType::f64);
  const Tensor ids = randint({2, 3}, {.high = 5});
  EXPECT_EQ(net(ids).shape(), (Shape{2, 3, 5}));
  sum(net(ids)).backward();
  EXPECT_TRUE(net.parameters()[0].grad().defined());
}

TEST(Module, HooksSeeWhatGoesInAndOut) {
  auto net = small();
  std::vector<std::string> seen;
  const int number = net.find("fc1").add_hooks(
      {.before = [&](nn::Module& m,
                     std::span<const Tensor> in) { seen.push_back(m.name() + to_string(in[0].shape())); },
       .after = [&](nn::Module& m, std::span<const Tensor>,
                    std::span<const Tensor> out) { seen.push_back(m.name() + to_string(out[0].shape())); }});
  net(normal({2, 3}));
  EXPECT_EQ(seen, (std::vector<std::string>{"fc1[2, 3]", "fc1[2, 4]"}));
  net.find("fc1").remove_hooks(number);
  net(normal({2, 3}));
  EXPECT_EQ(seen.size(), 2U);
}

TEST(Module, OneInputModulesRefuseSeveral) {
  nn::Relu relu;
  EXPECT_NE(error_of([&] {
              relu({zeros({1}), zeros({1})});
            }).find("[Relu] expected one input, got 2"),
            std::string::npos);
}

}  // namespace
}  // namespace starling
