#pragma once

#include <optional>
#include <vector>

#include "starling/kernels/kernel.h"
#include "starling/ops/def/attrs/fused.h"

namespace starling::kernels {

// Iteration space of a fused program as rows of columns: `cols` is the last dimension, `outer` those before it, after
// joining dimensions that all operands and reductions treat alike.
struct FusedGrid {
  struct Operand {
    Shape outer{};         // strides over `outer`, in bytes
    std::int64_t col = 0;  // stride over columns, in bytes
    std::int64_t row = 0;  // stride over the last of `outer`, in bytes
    int bytes = 4;         // of one element
  };
  // A reduction. `strides` over `outer` give the result that a row belongs to (0 along reduced dimensions); there are
  // `kept` results, times the columns if those are kept.
  struct Reduction {
    int value = 0;
    bool over_cols = false;
    bool over_rows = false;  // over some of `outer`
    Shape strides{};
    std::int64_t kept = 1;
    double count = 1;  // elements per result

    bool of_rows() const { return over_cols && !over_rows; }
  };
  Shape outer{};
  std::int64_t cols = 1;
  std::vector<Operand> operands{};
  std::vector<Reduction> reductions{};  // in step order

  std::int64_t rows() const { return outer.numel(); }
  std::int64_t rows_in_line() const { return outer.empty() ? 1 : outer.back(); }
};

// Null where a reduction reads a value whose shape is not the whole one.
std::optional<FusedGrid> fused_grid(const FusedProgram& program, std::span<const ArgDesc> in,
                                    const std::vector<TensorType>& types);

}  // namespace starling::kernels
