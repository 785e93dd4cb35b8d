#include <gtest/gtest.h>

#include <cstdlib>

#include "ops/op_checks.h"
#include "starling/kernels/eager.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

constexpr double kTolerance = 2e-6;
constexpr double kSecondTolerance = 2e-5;

void check_all(int shard, int order, double tolerance) {
  int checked = 0;
  for (const auto* op : tested_ops(shard)) {
    if (!op->gradient || !op->cases) continue;
    for (const auto& sample : op->cases()) {
      const GradCheck result = check_gradient(*op, sample, order);
      EXPECT_LT(result.worst, tolerance) << describe(*op, sample);
      checked += result.compared > 0;
    }
  }
  EXPECT_TRUE(checked > 60 || std::getenv("STARLING_OPS") != nullptr) << checked;
}

class Gradients : public ::testing::TestWithParam<int> {};

TEST_P(Gradients, OfEveryOpAgreeWithDifferencesOnReferenceKernels) {
  const kernels::ReferenceScope reference;
  check_all(GetParam(), 1, kTolerance);
}

TEST_P(Gradients, OfEveryOpAgreeWithDifferencesOnFastKernels) { check_all(GetParam(), 1, kTolerance); }

TEST_P(Gradients, OfGradientsAgreeWithDifferences) { check_all(GetParam(), 2, kSecondTolerance); }

// The checker must be able to fail.
TEST_P(Gradients, OffByOnePercentAreFound) {
  int found = 0, tried = 0;
  for (const auto* op : tested_ops(GetParam())) {
    if (!op->gradient || !op->cases) continue;
    OpDef wrong = *op;
    wrong.gradient = [op](const GradCall& call) {
      TensorList grads = op->gradient(call);
      for (auto& g : grads) {
        if (g.defined()) g = mul(g, 1.01);
      }
      return grads;
    };
    double worst = 0;
    for (const auto& sample : op->cases()) worst = std::max(worst, check_gradient(wrong, sample).worst);
    ++tried;
    found += worst > kTolerance;
    EXPECT_GT(worst, 1e-4) << op->name << ": a gradient scaled by 1.01 passes the check";
  }
  EXPECT_EQ(found, tried);
}

// Fused ops are made by passes, and have the gradient of what they stand for when they are called by name.
TEST(FusedOps, HaveTheGradientOfTheirParts) {
  int checked = 0;
  for (const auto* op : op_registry().sorted()) {
    if (op->gradient || !op->decompose || !op->cases || op->stateful) continue;
    for (const auto& sample : op->cases()) {
      const Drawn drawn = draw(sample, DType::f64);
      for (Tensor x : drawn.in) {
        if (x.dtype() == DType::f64) x.set_requires_grad();
      }
      bool recorded = false;
      for (const auto& y : apply(*op, drawn.in, sample.attrs)) recorded = recorded || y.requires_grad();
      EXPECT_TRUE(recorded) << describe(*op, sample);
    }
    ++checked;
  }
  EXPECT_GE(checked, 4);
  for (const char* name : {"batch_norm_relu", "matmul_act", "linear_epilogue"}) {
    for (const auto& sample : find_op(name).cases())
      EXPECT_LT(check_gradient(find_op(name), sample).worst, kTolerance) << describe(find_op(name), sample);
  }
}

INSTANTIATE_TEST_SUITE_P(Shard, Gradients, ::testing::Range(0, kShards));

}  // namespace
}  // namespace starling::testing
