#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/step_testing.h"
#include "starling/autograd/autograd.h"
#include "starling/graph/printer.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/runtime/compile.h"

namespace starling::runtime {
namespace {

using testing::relative_l2;

bool is_fused(const graph::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const graph::Node& n) { return n.op->name == "fused"; });
}

Tensor drawn(const Shape& shape, DType dtype) { return uniform(shape, {.low = -3, .high = 3, .dtype = dtype}); }

TEST(ElementwiseChains, WithAttributesEqualEager) {
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = drawn({37, 29}, dtype), bias = drawn({29}, dtype);
    const auto chain = [](const Tensor& a, const Tensor& b) {
      const Tensor t = leaky_relu(add(a, b), 0.125);
      return add(clamp(t, {.min = -0.25}), elu(mul(t, a), 0.7));
    };
    auto compiled = compile([&](const Tensor& a, const Tensor& b) { return chain(a, b); });
    EXPECT_LE(relative_l2(compiled(x, bias), chain(x, bias)), 1e-6);
    ASSERT_TRUE(is_fused(compiled.graph()));
    EXPECT_NE(print(compiled.graph()).find("leaky_relu(t0,0.125)"), std::string::npos);
    EXPECT_NE(print(compiled.graph()).find("inf)"), std::string::npos);  // the bound that was not given
  }
}

// Each elementwise op of floats between two others, forward and backward, as it is and in one pass over memory.
TEST(ElementwiseChains, OfEveryUnaryOpFuseAndEqualEager) {
  int checked = 0;
  for (const auto* op : op_registry().sorted()) {
    if (!op->elementwise() || op->inputs.size() != 1 || !op->cases) continue;
    const TensorType type{DType::f32, {40, 50}};
    if (op->name == "bitwise_not" || infer(*op, {&type, 1}, op->cases()[1].attrs)[0].dtype != DType::f32) continue;
    const Attrs attrs = op->cases()[1].attrs;
    const Tensor x = uniform({40, 50}, {.low = 0.1, .high = 0.8});
    const auto chain = [&](const Tensor& a) { return mul(apply1(*op, {add(a, 0.05)}, attrs), a); };
    auto compiled = compile(chain);
    EXPECT_LE(relative_l2(compiled(x), chain(x)), 1e-6) << op->name;
    EXPECT_TRUE(is_fused(compiled.graph())) << op->name;
    ++checked;
  }
  EXPECT_GT(checked, 30);
}

TEST(ElementwiseChains, OfActivationsHaveTheGradientsOfEager) {
  const Tensor x = drawn({64, 33}, DType::f32);
  const auto net = [](const Tensor& a) {
    return sum(add(gelu(mul(a, 0.7)), add(silu(a), add(mish(a), add(hardswish(a), leaky_relu(selu(a), 0.2))))));
  };
  const auto slopes = [&](const Tensor& a) { return grad(net)(a); };
  auto compiled = compile(slopes);
  EXPECT_LE(relative_l2(compiled(x), slopes(x)), 1e-5);
  EXPECT_TRUE(is_fused(compiled.graph()));
}

}  // namespace
}  // namespace starling::runtime
