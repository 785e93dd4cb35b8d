#include <gtest/gtest.h>

#include "ops/op_checks.h"
#include "starling/ops/def/apply.h"

// Generated checks are only as good as the coverage of the sample calls.
namespace starling::testing {
namespace {

bool has_zero_size(const OpCase& sample) {
  for (const auto& in : sample.in) {
    if (in.shape.numel() == 0) return true;
  }
  return false;
}

// True if the op refuses its own samples once an operand has no elements.
bool refuses_zero_size(const OpDef& op) {
  for (const auto& sample : op.cases()) {
    for (std::size_t i = 0; i < sample.in.size(); ++i) {
      if (sample.in[i].shape.rank() == 0) continue;
      OpCase none = sample;
      none.in[i].shape[0] = 0;
      try {
        apply(op, draw(none, DType::f64).span(), none.attrs);
        return false;
      } catch (const Error&) {
      }
    }
  }
  return true;
}

TEST(Cases, OfDifferentiableOpsAreEightOrMore) {
  for (const auto* op : tested_ops()) {
    if (!op->gradient || !op->cases) continue;
    EXPECT_GE(op->cases().size(), 8u) << op->name;
  }
}

TEST(Cases, UseANonDefaultValueOfEveryAttribute) {
  for (const auto* op : tested_ops()) {
    if (!op->cases) continue;
    const Attrs plain = Attrs::defaults(*op->attrs);
    for (const auto& field : op->attrs->fields) {
      bool moved = false;
      for (const auto& sample : op->cases()) moved |= sample.attrs.print(field) != plain.print(field);
      EXPECT_TRUE(moved) << op->name << " is never tried with " << field.name << " other than " << plain.print(field);
    }
  }
}

TEST(Cases, IncludeAnEmptyOperandUnlessTheOpRefusesIt) {
  for (const auto* op : tested_ops()) {
    if (!op->cases || op->inputs.empty()) continue;
    bool tried = false;
    for (const auto& sample : op->cases()) tried |= has_zero_size(sample);
    EXPECT_TRUE(tried || refuses_zero_size(*op)) << op->name;
  }
}

TEST(Cases, BroadcastOperandsOfElementwiseOps) {
  for (const auto* op : tested_ops()) {
    if (!op->cases || !op->elementwise() || op->inputs.size() < 2 || op->name.ends_with("_backward")) continue;
    bool stretched = false;
    for (const auto& sample : op->cases()) stretched |= !(sample.in[0].shape == sample.in[1].shape);
    EXPECT_TRUE(stretched) << op->name;
  }
}

}  // namespace
}  // namespace starling::testing
