#pragma once

#include <cstdint>

#include "starling/base/error.h"
#include "starling/kernels/kernel.h"

namespace starling::kernels {

// Sparsity pattern of a CSR matrix [rows, cols], as kernels get it.
struct CsrPattern {
  const char* who;
  std::int64_t rows = 0, cols = 0, count = 0;

  const std::int64_t* offsets(const Launch& launch) const { return static_cast<const std::int64_t*>(launch.in[0]); }
  const std::int64_t* columns(const Launch& launch) const { return static_cast<const std::int64_t*>(launch.in[1]); }

  // Throws on offsets that do not ascend within the values, and on columns outside the matrix.
  void check_values(const Launch& launch) const {
    const auto *at = offsets(launch), *column = columns(launch);
    if (at[0] < 0 || at[rows] > count)
      fail("[{}] expected row_offsets in [0, {}], got {} to {}", who, count, at[0], at[rows]);
    for (std::int64_t i = 0; i < rows; ++i) {
      if (at[i] > at[i + 1])
        fail("[{}] expected ascending row_offsets, got {} after {} at position {}", who, at[i + 1], at[i], i + 1);
    }
    for (std::int64_t e = 0; e < count; ++e) {
      if (column[e] < 0 || column[e] >= cols)
        fail("[{}] expected columns in [0, {}), got {} at position {}", who, cols, column[e], e);
    }
  }
};

inline CsrPattern csr_pattern(const char* who, const PlanRequest& request, std::int64_t cols) {
  return {who, request.in[0].shape[0] - 1, cols, request.in[1].shape[0]};
}

}  // namespace starling::kernels
