#include "starling/runtime/compile.h"

#include <gtest/gtest.h>

#include "runtime/step_testing.h"

namespace starling::runtime {
namespace {

using testing::Bench;
using testing::relative_l2;

TEST(Compile, EachPassAloneChangesNothing) {
  for (const auto& pass : graph::all_passes()) {
    Bench with(("mlp"), 8, DType::f64), without("mlp", 8, DType::f64);
    auto a = compile([&](const Tensor& x, const Tensor& y) { return with.gradients_of(x, y); });
    auto b = compile([&](const Tensor& x, const Tensor& y) { return without.gradients_of(x, y); },
                     {.disable = {std::string(pass.name)}});
    const TensorList ga = a(with.x, with.y), gb = b(without.x, without.y);
    for (std::size_t i = 0; i < ga.size(); ++i) EXPECT_LE(relative_l2(ga[i], gb[i]), 1e-12) << pass.name;
  }
}

TEST(Compile, TracesOnceForEachSignature) {
  int traced = 0;
  auto f = compile([&](const Tensor& x) {
    ++traced;
    return sum(mul(x, x));
  });
  const Tensor small = from_doubles(std::vector<double>{1, 2, 3}, {3});
  const Tensor large = from_doubles(std::vector<double>{1, 2, 3, 4}, {4});
  EXPECT_EQ(f(small).item(), 14);
  EXPECT_EQ(f(small).item(), 14);
  EXPECT_EQ(f(large).item(), 30);
  EXPECT_EQ(traced, 2);
  EXPECT_EQ(f.programs(), 2u);
}

TEST(Compile, ReadsCapturedTensorsAtEveryCall) {
  Tensor factor = from_doubles(std::vector<double>{2}, {});
  auto f = compile([&](const Tensor& x) { return mul(x, factor); });
  const Tensor x = from_doubles(std::vector<double>{1, 2}, {2});
  EXPECT_EQ(f(x).to_vector(), (std::vector<double>{2, 4}));
  copy_into(factor, from_doubles(std::vector<double>{5}, {}));
  EXPECT_EQ(f(x).to_vector(), (std::vector<double>{5, 10}));
}

TEST(Compile, BakesConstants) {
  const Tensor factor = from_doubles(std::vector<double>{2}, {});
  auto f = compile([&](const Tensor& x) { return mul(x, constant(factor)); });
  const Tensor x = from_doubles(std::vector<double>{1, 2}, {2});
  EXPECT_EQ(f(x).to_vector(), (std::vector<double>{2, 4}));
  EXPECT_EQ(f.traced_graph().constants.size(), 1u);
}

TEST(Compile, NamesTheLineThatReadsATracedValue) {
  auto f = compile([&](const Tensor& x) {
    const Tensor y = sum(x);
    if (y.item() > 0) return y;
    return neg(y);
  });
  try {
    f(from_doubles(std::vector<double>{1, 2}, {2}));
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("compile_test.cpp"), std::string::npos) << e.what();
  }
}

TEST(Compile, RefusesToAssignATracedValue) {
  auto f = compile([&](const Tensor& x) {
    assign(x, mul(x, 2.0));
    return x;
  });
  EXPECT_THROW(f(from_doubles(std::vector<double>{1}, {1})), Error);
}

TEST(Compile, AccumulatesGradientsThatNobodyConsumes) {
  Bench bench("mlp", 4, DType::f64);
  Bench eager("mlp", 4, DType::f64);
  auto f = compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = cross_entropy(bench.net(x), y);
    loss.backward();
    return loss;
  });
  f(bench.x, bench.y);
  f(bench.x, bench.y);
  for (int i = 0; i < 2; ++i) cross_entropy(eager.net(eager.x), eager.y).backward();
  const auto a = bench.net.parameters(), b = eager.net.parameters();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LE(relative_l2(a[i].grad(), b[i].grad()), 1e-12) << a[i].name();
  for (const auto& p : a) p.set_grad(Tensor());
  f(bench.x, bench.y);
  for (const auto& p : b) p.set_grad(Tensor());
  cross_entropy(eager.net(eager.x), eager.y).backward();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LE(relative_l2(a[i].grad(), b[i].grad()), 1e-12) << a[i].name();
}

TEST(Compile, DropsTheSameElementsAsEager) {
  const Tensor x = from_doubles(std::vector<double>(64, 1.0), {8, 8});
  manual_seed(3);
  const auto eager = dropout(x, 0.5).to_vector();
  manual_seed(3);
  auto f = compile([](const Tensor& t) { return dropout(t, 0.5); });
  EXPECT_EQ(f(x).to_vector(), eager);
}

// The key is read by the dropout and advanced by the optimizer in the same program: the order must hold.
TEST(Compile, StepsWithDropoutFollowEager) {
  const auto run = [](bool compiled, int workers) {
    manual_seed(11);
    nn::Sequential net;
    net.add("fc1", nn::Linear({.in = 6, .out = 32}))
        .add("drop", nn::Dropout(0.5))
        .add("fc2", nn::Linear({.in = 32, .out = 3}));
    optim::Sgd opt(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    const Tensor x = normal({9, 6}), y = cast(uniform({9}, {.low = 0, .high = 2.99}), DType::i64);
    const auto body = [&](const Tensor& in, const Tensor& labels) {
      const Tensor loss = cross_entropy(net(in), labels);
      loss.backward();
      opt.step();
      return loss;
    };
    CompileOptions options;
    if (workers > 1) options.strategy = data_parallel({.workers = workers});
    auto step = compile(body, options);
    std::vector<double> losses;
    manual_seed(12);
    for (int i = 0; i < 5; ++i) losses.push_back((compiled ? step(x, y) : body(x, y)).item());
    return losses;
  };
  const auto eager = run(false, 1), compiled = run(true, 1), parallel = run(true, 3);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_NEAR(compiled[i], eager[i], 1e-5) << "step " << i;
    EXPECT_NEAR(parallel[i], eager[i], 1e-5) << "step " << i;
  }
}

TEST(Compile, KeepsResultsThatTheCallerHolds) {
  auto f = compile([](const Tensor& x) { return mul(x, 2.0); });
  const Tensor one = f(from_doubles(std::vector<double>{1}, {1}));
  const Tensor two = f(from_doubles(std::vector<double>{2}, {1}));
  EXPECT_EQ(one.item(), 2);
  EXPECT_EQ(two.item(), 4);
}

TEST(Compile, SwapsVariables) {
  Tensor a = from_doubles(std::vector<double>{1, 2}, {2}), b = from_doubles(std::vector<double>{3, 4}, {2});
  a.set_name("a");
  b.set_name("b");
  auto swap = compile([&](const Tensor& x) {
    const Tensor was_a = mul(a, 1.0), b_now = mul(b, 1.0);
    assign(a, b_now);
    assign(b, was_a);
    return x;
  });
  swap(from_doubles(std::vector<double>{0}, {1}));
  EXPECT_EQ(a.to_vector(), (std::vector<double>{3, 4}));
  EXPECT_EQ(b.to_vector(), (std::vector<double>{1, 2}));
}

TEST(Compile, KeepsOldValuesThatOutliveAnAssign) {
  const char* text = R"(starling-graph 1
variable 0 "a" f32[2]
variable 1 "b" f32[2]
%0 = variable {index=0, shape=[2]} : f32[2]
%1 = variable {index=1, shape=[2]} : f32[2]
assign(%1) {index=0}
assign(%0) {index=1}
%2 = add(%0, %1) : f32[2]
return %2
)";
  Container container;
  container.set("a", from_doubles(std::vector<double>{1, 2}, {2}));
  container.set("b", from_doubles(std::vector<double>{3, 4}, {2}));
  BuildOptions options;
  for (const char* disable : {"", "all"}) {
    if (*disable) options.program.disable = {disable};
    auto program = SingleStrategy().build(graph::parse_graph(text), container, options);
    const Tensor sum = empty({2});
    program->run({}, {&sum, 1});
    EXPECT_EQ(sum.to_vector(), (std::vector<double>{4, 6}));
  }
  EXPECT_EQ(container.get("a").to_vector(), (std::vector<double>{1, 2})) << "two swaps are none";
}

TEST(Compile, ReusesMemory) {
  Bench bench("sae_small", 16, DType::f32), plain("sae_small", 16, DType::f32);
  auto shared = compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y); });
  auto unshared = compile([&](const Tensor& x, const Tensor& y) { return plain.step(x, y); }, {.reuse_memory = false});
  EXPECT_EQ(shared(bench.x, bench.y).item(), unshared(plain.x, plain.y).item());
  EXPECT_LT(shared.memory_bytes(), unshared.memory_bytes());
}

}  // namespace
}  // namespace starling::runtime
