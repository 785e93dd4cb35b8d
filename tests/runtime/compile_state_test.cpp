// Compiled functions and the state around them: variables, gradients, modes, shared memory.
#include <gtest/gtest.h>

#include "runtime/step_testing.h"

namespace starling::runtime {
namespace {

using testing::Bench;
using testing::relative_l2;

Tensor row(std::vector<double> values) {
  return from_doubles(values, {static_cast<std::int64_t>(values.size())}, DType::f64);
}

TEST(CompiledState, TwoStepsInOneProgramAreTwoSteps) {
  for (const char* net : {"mlp", "lenet"}) {
    Bench eager(net, 8, DType::f32), compiled(net, 8, DType::f32);
    auto twice = compile([&](const Tensor& x, const Tensor& y) {
      compiled.step(x, y);
      return compiled.step(x, y);
    });
    for (int i = 0; i < 3; ++i) {
      eager.step(eager.x, eager.y);
      EXPECT_NEAR(eager.step(eager.x, eager.y).item(), twice(compiled.x, compiled.y).item(), 1e-4) << net;
    }
    const auto a = eager.net.parameters(), b = compiled.net.parameters();
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LE(relative_l2(b[i], a[i]), 1e-4) << a[i].name();
  }
}

TEST(CompiledState, AnUpdateMayReadTheValueItReplaces) {
  const Tensor a = from_doubles(std::vector<double>{0, 1, 1, 0}, {2, 2}, DType::f64);
  const auto run = [&](bool compiled) {
    Tensor v = from_doubles(std::vector<double>{1, 2, 3, 4}, {2, 2}, DType::f64);
    v.set_name("v");
    const auto body = [&](const Tensor& m) {
      assign(v, matmul(m, v));
      assign(v, add(matmul(m, v), v));
      return sum(v);
    };
    auto f = compile(body);
    for (int i = 0; i < 3; ++i) compiled ? f(a) : body(a);
    return v.to_vector();
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(CompiledState, InPlaceNeverMeetsAnotherViewOfTheSameMemory) {
  const Tensor a = from_doubles(std::vector<double>{1, 2, 3, 4, 5, 6}, {3, 2}, DType::f64);
  const auto body = [](const Tensor& x) {
    const Tensor h = mul(x, 3.0);
    return sub(h, slice(h, {.axis = 0, .begin = 0, .end = 1}));
  };
  auto f = compile(body, {.disable = {"fuse"}});
  EXPECT_EQ(f(a).to_vector(), body(a).to_vector());
}

TEST(CompiledState, GradientsOfOneProgramAreUsedUpByAnother) {
  Bench eager("mlp", 4, DType::f64), split("mlp", 4, DType::f64);
  auto backward = compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = cross_entropy(split.net(x), y);
    loss.backward();
    return loss;
  });
  auto update = compile([&](const Tensor& x) {
    split.opt.step();
    return mul(x, 1.0);
  });
  const Tensor nothing = row({0});
  for (int i = 0; i < 4; ++i) {
    const Tensor expected = eager.step(eager.x, eager.y);
    EXPECT_NEAR(backward(split.x, split.y).item(), expected.item(), 1e-10) << "step " << i;
    update(nothing);
  }
}

TEST(CompiledState, AGradientLeftByEagerCodeCountsOnce) {
  Bench eager("mlp", 4, DType::f64), mixed("mlp", 4, DType::f64);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return mixed.step(x, y); });
  cross_entropy(eager.net(eager.x), eager.y).backward();
  cross_entropy(mixed.net(mixed.x), mixed.y).backward();
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(step(mixed.x, mixed.y).item(), eager.step(eager.x, eager.y).item(), 1e-10) << "step " << i;
  }
}

TEST(CompiledState, ADetachedParameterIsReadWhereTheCodeReadsIt) {
  const auto run = [](bool compiled) {
    Tensor w = row({1, 2}), mean = row({0, 0});
    w.set_name("w").set_requires_grad();
    mean.set_name("mean");
    optim::Sgd opt({w}, {.lr = 0.5});
    const auto body = [&](const Tensor& x) {
      const Tensor loss = sum(mul(w, x));
      loss.backward();
      opt.step();
      assign(mean, add(mul(mean, 0.5), mul(w.detach(), 0.5)));
      return loss;
    };
    auto f = compile(body);
    const Tensor x = row({1, 3});
    for (int i = 0; i < 3; ++i) compiled ? f(x) : body(x);
    return mean.to_vector();
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(CompiledState, AGradientUsesTheValuesOfItsForwardPass) {
  Tensor w = row({2});
  w.set_name("w").set_requires_grad();
  auto f = compile([&](const Tensor& x) {
    const Tensor y = sum(mul(mul(w, w), x));
    assign(w, mul(w, 10.0));
    return gradients({&y, 1}, {&w, 1})[0];
  });
  EXPECT_EQ(f(row({1})).item(), 4) << "2 w at the w of the forward pass";
}

TEST(CompiledState, TrainAndEvalModeAreToldApart) {
  manual_seed(1);
  nn::Sequential net;
  net.add("drop", nn::Dropout(0.5));
  auto f = compile([&](const Tensor& x) { return net(x); });
  const Tensor x = from_doubles(std::vector<double>(100, 1.0), {100});
  EXPECT_NE(f(x).to_vector(), x.to_vector());
  net.eval();
  EXPECT_EQ(f(x).to_vector(), x.to_vector());
  net.train();
  EXPECT_NE(f(x).to_vector(), x.to_vector());
  EXPECT_EQ(f.programs(), 2u);
}

TEST(CompiledState, ConvertedParametersAreSeen) {
  manual_seed(1);
  nn::Sequential net = zoo::mlp();
  auto f = compile([&](const Tensor& x) { return net(x); });
  EXPECT_EQ(f(zeros({2, 784})).dtype(), DType::f32);
  net.to(DType::f64);
  EXPECT_EQ(f(zeros({2, 784}, DType::f64)).dtype(), DType::f64);
}

TEST(CompiledState, AFailedCallCanBeRepeated) {
  Bench bench("mlp", 4, DType::f32);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y); },
                      {.strategy = data_parallel({.workers = 2})});
  step(bench.x, bench.y);
  const Tensor bad = from_doubles(std::vector<double>{0, 1, 2, 99}, {4}, DType::i64);
  EXPECT_THROW(step(bench.x, bad), Error);
  EXPECT_NO_THROW(step(bench.x, bench.y));
}

TEST(CompiledState, TwoOptimizersShareAStep) {
  Bench bench("mlp", 4, DType::f64);
  const auto all = bench.net.parameters();
  optim::Sgd first({all[0], all[1]}, {.lr = 0.1, .name = "first"}),
      second({all[2], all[3]}, {.lr = 0.2, .name = "second"});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = cross_entropy(bench.net(x), y);
    loss.backward();
    first.step();
    second.step();
    for (std::size_t i = 4; i < all.size(); ++i) all[i].set_grad(Tensor());
    return loss;
  });
  const double before = step(bench.x, bench.y).item();
  EXPECT_LT(step(bench.x, bench.y).item(), before);
}

TEST(CompiledState, ScalarArgumentsAreReplicatedToEveryRank) {
  auto f = compile([](const Tensor& x, const Tensor& scale) { return sum(mul(x, scale)); },
                   {.strategy = data_parallel({.workers = 2})});
  EXPECT_EQ(f(row({1, 2, 3}), from_doubles(std::vector<double>{2}, {}, DType::f64)).item(), 12);
}

TEST(CompiledState, AMaximumIsReducedBeforeItIsNegated) {
  auto f = compile([](const Tensor& x) { return neg(max(x)); }, {.strategy = data_parallel({.workers = 2})});
  EXPECT_EQ(f(row({3, 1, 5, 2})).item(), -5);
}

TEST(CompiledState, AnArgumentInTheMemoryOfAVariableIsReadAsItWas) {
  Tensor w = full({64}, 3.0);
  w.set_name("w");
  auto f = compile([&](const Tensor& x) {
    const Tensor y = mul(x, 2.0);
    assign(w, zeros({64}));
    return y;
  });
  EXPECT_EQ(f(w).to_vector(), std::vector<double>(64, 6.0));
  EXPECT_EQ(w.to_vector(), std::vector<double>(64, 0.0));
}

}  // namespace
}  // namespace starling::runtime
