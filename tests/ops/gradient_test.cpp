#include <gtest/gtest.h>

#include "ops/op_checks.h"
#include "starling/kernels/eager.h"
#include "starling/ops/apply.h"
#include "starling/ops/binary.h"
#include "starling/ops/registry.h"

namespace starling::testing {
namespace {

constexpr double kTolerance = 2e-6;
constexpr double kSecondTolerance = 2e-5;

void check_all(int order, double tolerance) {
  int checked = 0;
  for (const auto* op : tested_ops()) {
    if (!op->gradient || !op->cases) continue;
    for (const auto& sample : op->cases()) {
      const GradCheck result = check_gradient(*op, sample, order);
      EXPECT_LT(result.worst, tolerance) << describe(*op, sample);
      checked += result.compared > 0;
    }
  }
  EXPECT_GT(checked, 100);
}

TEST(Gradients, OfEveryOpAgreeWithDifferencesOnReferenceKernels) {
  const ReferenceScope reference;
  check_all(1, kTolerance);
}

TEST(Gradients, OfEveryOpAgreeWithDifferencesOnFastKernels) { check_all(1, kTolerance); }

TEST(Gradients, OfGradientsAgreeWithDifferences) { check_all(2, kSecondTolerance); }

// The checker must be able to fail.
TEST(Gradients, OffByOnePercentAreFound) {
  int found = 0, tried = 0;
  for (const auto* op : tested_ops()) {
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

}  // namespace
}  // namespace starling::testing
