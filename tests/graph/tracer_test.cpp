#include "starling/graph/tracer.h"

#include <gtest/gtest.h>

#include "starling/graph/printer.h"
#include "starling/starling.h"

namespace starling::graph {
namespace {

TEST(Tracer, LiftsVariablesByIdentityAndReadsThemOnce) {
  Tensor w = zeros({2});
  w.set_name("w");
  const Tensor x = zeros({2});
  const Trace traced = trace([&](std::span<const Tensor> in) { return TensorList{add(mul(in[0], w), w)}; }, {&x, 1});
  EXPECT_EQ(traced.graph.variables.size(), 1u);
  EXPECT_EQ(print_short(traced.graph).find("%3 = add(%2, %1)") != std::string::npos, true) << print_short(traced.graph);
}

TEST(Tracer, ReadsAfterAnAssignSeeTheNewValue) {
  Tensor w = from_doubles(std::vector<double>{1}, {1});
  w.set_name("w");
  auto f = compile([&](const Tensor& x) {
    assign(w, add(w, x));
    return mul(w, 10.0);
  });
  EXPECT_EQ(f(from_doubles(std::vector<double>{2}, {1})).item(), 30);
  EXPECT_EQ(w.item(), 3);
}

TEST(Tracer, GradientNodesKnowTheForwardNodeTheyCameFrom) {
  Tensor w = zeros({3, 2});
  w.set_name("w").set_requires_grad();
  const Tensor x = zeros({4, 2});
  const Trace traced = trace(
      [&](std::span<const Tensor> in) {
        const Tensor y = sum(tanh(linear(in[0], w)));
        return gradients({&y, 1}, {&w, 1});
      },
      {&x, 1});
  bool seen = false;
  for (const auto& node : traced.graph.nodes()) {
    if (!is_op(node, "tanh_backward")) continue;
    seen = true;
    ASSERT_GE(node.origin, 0);
    EXPECT_TRUE(is_op(traced.graph.node(node.origin), "tanh"));
  }
  EXPECT_TRUE(seen);
}

TEST(Tracer, NodesCarryTheScopeOfTheirModule) {
  const nn::Sequential net = zoo::mlp();
  const Tensor x = zeros({2, 784});
  nn::Sequential copy = net;
  const Trace traced = trace([&](std::span<const Tensor> in) { return TensorList{copy(in[0])}; }, {&x, 1});
  bool seen = false;
  for (const auto& node : traced.graph.nodes()) seen |= node.scope.str() == "fc1";
  EXPECT_TRUE(seen);
}

TEST(Tracer, AnErrorInsideLeavesGradientSlotsAsTheyWere) {
  Tensor w = from_doubles(std::vector<double>{1}, {});
  w.set_name("w").set_requires_grad();
  mul(w, 2.0).backward();
  const Tensor before = w.grad();
  auto f = compile([&](const Tensor& x) {
    mul(w, x).backward();
    return add(x, zeros({2, 2}));
  });
  auto bad = compile([&](const Tensor& x) {
    mul(w, x).backward();
    return matmul(x, x);
  });
  EXPECT_THROW(bad(from_doubles(std::vector<double>{3}, {})), Error);
  EXPECT_TRUE(same(w.grad(), before));
}

}  // namespace
}  // namespace starling::graph
