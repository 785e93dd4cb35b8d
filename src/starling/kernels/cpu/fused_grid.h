#pragma once

#include <optional>
#include <vector>

#include "starling/kernels/kernel.h"
#include "starling/ops/fused.h"

namespace starling {

// The whole shape of a fused program as rows of columns: `cols` is the last dimension, `outer` those before it, after
// dimensions that all operands and reductions treat alike were joined.
struct FusedGrid {
  struct Operand {
    Shape outer{};         // strides over `outer`, in bytes
    std::int64_t col = 0;  // from one column to the next, in bytes
    std::int64_t row = 0;  // over the last of `outer`
    int bytes = 4;         // of one element
  };
  // A reduction: whether over the columns, and the number of its result that a row belongs to, as strides over `outer`
  // (0 where it reduces); results are then `kept`, times the columns where it keeps those.
  struct Reduction {
    int value = 0;
    bool over_cols = false;
    bool over_rows = false;  // over any of `outer`
    Shape strides{};
    std::int64_t kept = 1;
    double count = 1;  // elements a result is made of

    bool of_rows() const { return over_cols && !over_rows; }
  };
  Shape outer{};
  std::int64_t cols = 1;
  std::vector<Operand> operands{};
  std::vector<Reduction> reductions{};  // in the order of the steps

  std::int64_t rows() const { return outer.numel(); }
  std::int64_t rows_in_line() const { return outer.empty() ? 1 : outer.back(); }
};

// Null where a reduction reads something of another shape than the whole.
std::optional<FusedGrid> fused_grid(const FusedProgram& program, std::span<const ArgDesc> in,
                                    const std::vector<TensorType>& types);

}  // namespace starling
