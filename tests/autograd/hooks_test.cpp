#include "starling/autograd/hooks.h"

#include <gtest/gtest.h>

#include "autograd/autograd_testing.h"

namespace starling {
namespace {

using testing::leaf;
using testing::named;
using testing::number;
using testing::row;

TEST(Hooks, SeeTheWholeGradientOfALeafOnce) {
  const Tensor x = leaf(number(3));
  std::vector<double> seen;
  x.register_hook([&](const Tensor& g) {
    seen.push_back(g.item());
    return Tensor();
  });
  add(mul(x, x), add(x, mul(x, 4.0))).backward();
  EXPECT_EQ(seen, std::vector<double>{11});
  EXPECT_EQ(x.grad().item(), 11);
}

TEST(Hooks, MayReplaceGradients) {
  const Tensor x = leaf(number(3));
  const Tensor y = mul(x, x);
  y.register_hook([](const Tensor& g) { return mul(g, 10.0); });
  y.register_hook([](const Tensor& g) { return add(g, 1.0); });
  x.register_hook([](const Tensor& g) { return neg(g); });
  mul(y, 2.0).backward();
  EXPECT_EQ(x.grad().item(), -6 * 21) << "in the order of registration: 2·10 + 1";
}

TEST(Hooks, RunFromTheNewestValueToTheOldest) {
  const Tensor x = leaf(number(1));
  std::string order;
  const auto note = [&](const char* who) {
    return [&order, who](const Tensor&) {
      order += who;
      return Tensor();
    };
  };
  const Tensor a = mul(x, 2.0), b = mul(a, 3.0);
  x.register_hook(note("x"));
  a.register_hook(note("a"));
  b.register_hook(note("b"));
  x.register_filled_hook([&](const Tensor& t) { order += t.grad().defined() ? "!" : "?"; });
  b.backward();
  EXPECT_EQ(order, "bax!");
}

TEST(Hooks, GradientReadyHooksRunAsSoonAsALeafsGradientIsComplete) {
  const Tensor first = leaf(number(2)), last = leaf(number(5));
  std::string order;
  first.register_filled_hook([&](const Tensor&) { order += "f"; });
  last.register_filled_hook([&](const Tensor& t) {
    order += "l";
    EXPECT_EQ(t.grad().item(), 2 * 3 + 1);
    EXPECT_FALSE(first.grad().defined()) << "the last layer's gradient is there before the first's";
  });
  const Tensor h = mul(first, 3.0);
  add(mul(h, last), last).backward();
  EXPECT_EQ(order, "lf");
  add(mul(first, 3.0), 0.0).backward();
  EXPECT_EQ(order, "lff");
}

TEST(Hooks, AreRemovedByTheirHandle) {
  const Tensor x = leaf(number(3));
  int calls = 0;
  HookHandle handle = x.register_hook([&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  mul(x, x).backward();
  handle.remove();
  handle.remove();
  mul(x, x).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(x.grad().item(), 12);
}

TEST(Hooks, ActOnGradientsAskedForToo) {
  const Tensor x = leaf(number(3)), other = leaf(number(1));
  int others = 0;
  x.register_hook([](const Tensor& g) { return mul(g, 2.0); });
  other.register_hook([&](const Tensor&) {
    ++others;
    return Tensor();
  });
  const Tensor y = mul(mul(x, x), other);
  EXPECT_EQ(gradients({&y, 1}, {&x, 1})[0].item(), 12);
  EXPECT_EQ(others, 0) << "nobody asked for it";
}

TEST(Hooks, OnTheOutputItselfSeeTheSeed) {
  const Tensor x = leaf(number(3));
  x.register_hook([](const Tensor& g) { return mul(g, 7.0); });
  x.backward();
  EXPECT_EQ(x.grad().item(), 7);
}

TEST(Hooks, RefuseWhatCannotWork) {
  const Tensor x = leaf(number(3)), y = mul(x, x);
  EXPECT_THROW(number(1).register_hook([](const Tensor& g) { return g; }), Error);
  EXPECT_THROW(y.register_filled_hook([](const Tensor&) {}), Error);
  EXPECT_THROW(x.register_hook(nullptr), Error);
  x.register_hook([](const Tensor&) { return row({1, 2}); });
  EXPECT_THROW(y.backward(), Error);
}

TEST(Hooks, AreTracedAlongInsideCompile) {
  const auto run = [](bool compiled) {
    Tensor w = named(leaf(row({1, 2})), "w"), norm = named(row({0}), "norm");
    w.register_hook([](const Tensor& g) { return mul(g, 0.5); });
    w.register_filled_hook([&](const Tensor& t) { assign(norm, reshape(sum(mul(t.grad(), t.grad())), {1})); });
    optim::Sgd opt({w}, {.lr = 0.5});
    const auto body = [&](const Tensor& x) {
      const Tensor h = mul(w, x);
      h.register_hook([](const Tensor& g) { return mul(g, 3.0); });
      const Tensor loss = sum(h);
      loss.backward();
      opt.step();
      return loss;
    };
    auto f = compile(body);
    for (int i = 0; i < 3; ++i) compiled ? f(row({1, 3})) : body(row({1, 3}));
    auto all = w.to_vector();
    all.push_back(norm.item());
    return all;
  };
  EXPECT_EQ(run(true), run(false));
  EXPECT_DOUBLE_EQ(run(true)[0], 1 - 3 * 0.5 * 1.5);
}

TEST(Hooks, ThatReadOnTheHostAreRefusedInsideCompile) {
  Tensor w = named(leaf(row({1, 2})), "w");
  w.register_hook([](const Tensor& g) { return mul(g, g.to_vector()[0]); });
  auto f = compile([&](const Tensor& x) {
    const Tensor loss = sum(mul(w, x));
    return gradients({&loss, 1}, {&w, 1})[0];
  });
  EXPECT_THROW(f(row({1, 3})), Error);
}

}  // namespace
}  // namespace starling
