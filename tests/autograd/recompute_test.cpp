#include "starling/autograd/recompute.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/autograd_testing.h"
#include "starling/tensor/allocator.h"

namespace starling {
namespace {

using testing::leaf;
using testing::named;
using testing::number;
using testing::row;

Tensor wave(const std::vector<std::int64_t>& sizes, double phase) {
  Shape shape;
  for (auto s : sizes) shape.push_back(s);
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(phase + 0.7 * static_cast<double>(i));
  return from_doubles(values, shape, DType::f64);
}

// A net with two weights that are captured, one region around its middle.
struct Net {
  Tensor a = named(leaf(wave({4, 8}, 1)), "a"), b = named(leaf(wave({8, 4}, 2)), "b");
  Tensor running = named(row({0, 0, 0, 0}), "running");

  Tensor middle(const Tensor& x) const {
    const Tensor y = matmul(tanh(matmul(x, a)), b);
    const Tensor m = mean(y, {.axes = {0}});
    assign(running, add(mul(running, 0.9), mul(m.detach(), 0.1)));
    return dropout(mul(sub(y, m), add(running, 1.0)), 0.3);
  }
  Tensor loss(const Tensor& x, bool again) const {
    const Tensor h = mul(x, 2.0);
    const Tensor y = again ? recompute([this](const Tensor& t) { return middle(t); }, h) : middle(h);
    return sum(mul(y, y));
  }
};

struct Outcome {
  std::vector<std::vector<double>> values;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome outcome(bool again, bool compiled) {
  manual_seed(3);
  Net net;
  const auto body = [&](const Tensor& input) {
    const Tensor x = compiled ? input : leaf(input.detach());
    const Tensor loss = net.loss(x, again);
    const Tensor wanted[] = {net.a, net.b};
    TensorList all = gradients({&loss, 1}, wanted);
    all.push_back(loss.detach());
    default_generator().next_step();
    return all;
  };
  auto f = compile(body);
  Outcome result;
  for (int i = 0; i < 3; ++i) {
    const TensorList out = compiled ? f(wave({6, 4}, i)) : body(wave({6, 4}, i));
    for (const auto& t : out) result.values.push_back(t.to_vector());
    result.values.push_back(net.running.to_vector());
  }
  return result;
}

void expect_close(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.values.size(), b.values.size());
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    for (std::size_t j = 0; j < a.values[i].size(); ++j) EXPECT_NEAR(a.values[i][j], b.values[i][j], 1e-12) << i;
  }
}

TEST(Recompute, GivesTheGradientsAndTheStateOfThePlainRun) { EXPECT_EQ(outcome(true, false), outcome(false, false)); }

TEST(Recompute, DoesSoInsideCompile) {
  expect_close(outcome(true, true), outcome(false, true));
  expect_close(outcome(true, true), outcome(false, false));
}

TEST(Recompute, RunsTheMiddleAgainInTheProgramWithoutAssigning) {
  const auto count = [](const graph::Graph& graph, const char* op) {
    int found = 0;
    for (const auto& node : graph.nodes()) found += is_op(node, op);
    return found;
  };
  for (bool again : {false, true}) {
    manual_seed(3);
    Net net;
    auto f = compile(
        [&](const Tensor& x) {
          const Tensor loss = net.loss(x, again);
          const Tensor wanted[] = {net.a, net.b};
          return gradients({&loss, 1}, wanted);
        },
        {.disable = {"fuse", "epilogues"}});
    f(wave({6, 4}, 0));
    EXPECT_EQ(count(f.traced_graph(), "assign"), 1) << "never repeated";
    EXPECT_EQ(count(f.graph(), "tanh"), again ? 2 : 1) << "merging equal nodes must not undo it";
  }
}

TEST(Recompute, ShrinksThePlannedMemory) {
  const auto planned = [](bool again) {
    auto f = compile([&](const Tensor& x) {
      const TensorFn wide = [](const Tensor& t) {
        Tensor h = t;
        for (int i = 0; i < 6; ++i) h = softmax(h);
        return h;
      };
      return grad([&](const Tensor& t) {
        Tensor h = t;
        for (int i = 0; i < 6; ++i) h = again ? recompute(wide, h) : wide(h);
        return sum(mul(h, h));
      })(x);
    });
    f(wave({64, 64}, 0));
    return f.memory_bytes();
  };
  EXPECT_LT(planned(true), 0.6 * static_cast<double>(planned(false)));
}

TEST(Recompute, KeepsFewerBytes) {
  const auto live = [] { return allocator(kCpu).stats().live_bytes; };
  const auto held = [&](bool again) {
    const Tensor x = leaf(zeros({1000, 100}, DType::f64));
    const TensorFn f = [](const Tensor& t) {
      Tensor h = t;
      for (int i = 0; i < 10; ++i) h = tanh(h);
      return h;
    };
    const auto before = live();
    const Tensor y = again ? recompute(f, x) : f(x);
    const auto kept = live() - before;
    sum(y).backward();
    EXPECT_TRUE(x.grad().defined());
    return kept;
  };
  const auto plain = held(false), recomputed = held(true);
  EXPECT_GE(plain, 10 * 800000);
  EXPECT_LT(recomputed, 2 * 800000) << "the output alone";
}

TEST(Recompute, ReadsBuffersAsTheyWere) {
  Tensor scale = named(row({2}), "scale");
  const Tensor x = leaf(row({3}));
  const Tensor y = recompute([&](const Tensor& t) { return mul(mul(t, t), scale); }, x);
  no_grad([&] { assign(scale, row({100})); });
  sum(y).backward();
  EXPECT_EQ(x.grad().item(), 12);
}

TEST(Recompute, SeesItsOwnAssignsInOrder) {
  Tensor count = row({1});
  const Tensor x = leaf(row({3}));
  const Tensor y = recompute(
      [&](const Tensor& t) {
        const Tensor before = mul(t, count);
        assign(count, add(count, 1.0));
        return mul(before, mul(t, count));
      },
      x);
  EXPECT_EQ(count.item(), 2);
  EXPECT_EQ(y.item(), 18);
  sum(y).backward();
  EXPECT_EQ(count.item(), 2) << "the second run does not count";
  EXPECT_EQ(x.grad().item(), 12);
}

TEST(Recompute, RefusesParametersWrittenSince) {
  Tensor w = named(leaf(row({2})), "w");
  const Tensor x = leaf(row({3}));
  const Tensor y = recompute([&](const Tensor& t) { return mul(t, w); }, x);
  no_grad([&] { assign(w, row({100})); });
  try {
    sum(y).backward();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'w'"), std::string::npos) << error.what();
  }
}

TEST(Recompute, InAGraphReadsParametersAsTheyWere) {
  Tensor w = named(leaf(row({2})), "w");
  auto f = compile([&](const Tensor& x) {
    const Tensor y = sum(recompute([&](const Tensor& t) { return mul(mul(w, w), t); }, x));
    assign(w, mul(w, 10.0));
    return gradients({&y, 1}, {&w, 1})[0];
  });
  EXPECT_EQ(f(row({1})).item(), 4);
}

TEST(Recompute, NestsAndIsDifferentiatedTwice) {
  const TensorFn f = [](const Tensor& x) {
    return recompute(
        [](const Tensor& t) { return mul(t, recompute([](const Tensor& u) { return mul(u, tanh(u)); }, t)); }, x);
  };
  const TensorFn plain = [](const Tensor& x) { return mul(x, mul(x, tanh(x))); };
  EXPECT_NEAR(grad(f)(number(0.7)).item(), grad(plain)(number(0.7)).item(), 1e-14);
  EXPECT_NEAR(grad(grad(f))(number(0.7)).item(), grad(grad(plain))(number(0.7)).item(), 1e-13);
}

TEST(Recompute, TakesOneTensorTwiceAndReturnsItsInputs) {
  const Tensor x = leaf(number(3));
  const Tensor in[] = {x, x};
  const TensorList out = recompute([](std::span<const Tensor> t) { return TensorList{mul(t[0], t[1]), t[0]}; }, in);
  add(out[0], mul(out[1], 2.0)).backward();
  EXPECT_EQ(x.grad().item(), 8);
}

TEST(Recompute, LeafHooksFireOnce) {
  const Tensor w = leaf(number(3));
  int calls = 0;
  w.register_hook([&](const Tensor& g) {
    ++calls;
    return mul(g, 2.0);
  });
  const Tensor x = leaf(number(2));
  add(recompute([&](const Tensor& t) { return mul(t, w); }, x), w).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(w.grad().item(), 6);
}

TEST(Recompute, InsideAHookedRegionInnerHooksAct) {
  const Tensor x = leaf(number(2));
  const Tensor y = recompute(
      [](const Tensor& t) {
        const Tensor h = mul(t, 3.0);
        h.register_hook([](const Tensor& g) { return mul(g, 5.0); });
        return mul(h, 1.0);
      },
      x);
  y.backward();
  EXPECT_EQ(x.grad().item(), 15);
}

TEST(Recompute, RefusesAnotherMode) {
  nn::Sequential net;
  net.add("drop", nn::Dropout(0.5));
  const Tensor x = leaf(row({1, 2, 3}));
  const Tensor y = recompute([&](const Tensor& t) { return net(t); }, x);
  net.eval();
  EXPECT_THROW(sum(y).backward(), Error);
}

TEST(Recompute, WithoutGradientsIsAPlainCall) {
  const Tensor y = recompute([](const Tensor& t) { return mul(t, 2.0); }, number(4));
  EXPECT_EQ(y.item(), 8);
  EXPECT_FALSE(y.requires_grad());
}

TEST(Recompute, SeesAssignsThroughEveryHandleOfTheMemory) {
  const auto gradient = [](bool again) {
    const Tensor state = named(number(2), "state"), other = state.detach();
    const TensorFn f = [&](const Tensor& t) {
      const Tensor before = mul(t, mul(other, state));
      assign(state, add(state, 3.0));
      return add(before, mul(t, mul(other, 100.0)));
    };
    const Tensor x = leaf(number(1));
    (again ? recompute(f, x) : f(x)).backward();
    return x.grad().item();
  };
  EXPECT_EQ(gradient(true), 504);
}

}  // namespace
}  // namespace starling
