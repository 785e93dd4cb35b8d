#pragma once

#include "starling/kernels/kernel.h"
#include "starling/ops/def/attrs/embedding.h"
#include "starling/ops/def/bag_operands.h"

namespace starling::kernels {

// Entries of each bag of one call. Made when a kernel is planned, bound to the operands when it runs.
struct Bags {
  op::BagOperands operands;
  std::int64_t each = 0;  // entries per bag, if there are no offsets

  static Bags of(const PlanRequest& request);

  struct Bound {
    const std::int64_t* indices;
    const std::int64_t* offsets;  // null: every bag has `each` entries
    std::int64_t each, bags, entries;
    std::int64_t begin(std::int64_t bag) const { return offsets ? offsets[bag] : bag * each; }
    std::int64_t end(std::int64_t bag) const {
      return !offsets ? (bag + 1) * each : bag + 1 == bags ? entries : offsets[bag + 1];
    }
    // Number of entries that are not padding.
    std::int64_t count(std::int64_t bag, std::int64_t padding) const;
  };
  // Binds the operands of a launch. Throws unless offsets start at 0, do not decrease, and stay within the entries.
  Bound bind(const Launch& launch, const char* who) const;
};

}  // namespace starling::kernels
