#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "ops/op_checks.h"
#include "starling/ops/def/attrs/linear_epilogue.h"

// Knowledge of passes, profiles and mixed precision about an op is in its definition, and nowhere else.
namespace starling::testing {
namespace {

TEST(Definitions, SayWhatACallCosts) {
  for (const auto* op : tested_ops()) EXPECT_TRUE(op->has_cost()) << op->name << " has neither a cost nor a trait";
  EXPECT_FALSE(OpDef{.name = "bare"}.has_cost());
}

TEST(Definitions, SayTheirPrecision) {
  for (const auto* op : tested_ops()) EXPECT_NE(op->width(), Width::by_trait) << op->name;
  EXPECT_EQ(OpDef{.name = "bare"}.width(), Width::by_trait);
}

TEST(Definitions, CountFiniteCostsOfEverySampleCall) {
  for (const auto* op : tested_ops()) {
    if (!op->cases || !op->cost.flops) continue;
    for (const auto& sample : op->cases()) {
      Types in;
      for (const auto& operand : sample.in) in.push_back({operand.dtype, operand.shape});
      const std::span<const TensorType> given{in.data(), in.size()};
      const Types out = op->infer({*op, given, sample.attrs});
      const double flops = op->cost.flops({*op, given, {out.data(), out.size()}, sample.attrs});
      EXPECT_TRUE(std::isfinite(flops) && flops >= 0) << describe(*op, sample) << ": " << flops;
    }
  }
}

TEST(Definitions, EndProductsOnlyWithOpsThatAnEpilogueTakes) {
  int count = 0;
  for (const auto* op : tested_ops()) {
    if (!op->in_epilogue) continue;
    EXPECT_EQ(ending_op(Symbol(op->name)), op) << op->name;
    ++count;
  }
  EXPECT_TRUE(count > 0 || std::getenv("STARLING_OPS") != nullptr);
}

TEST(Definitions, BroadcastOnlyElementwiseOps) {
  for (const auto* op : tested_ops()) EXPECT_TRUE(!op->broadcasts || op->elementwise()) << op->name;
}

}  // namespace
}  // namespace starling::testing
