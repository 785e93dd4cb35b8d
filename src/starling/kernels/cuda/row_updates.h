#pragma once

#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/sorted_lines.h"

namespace starling::cuda {

// Update of those rows of tensors that a gradient by rows names. Operands are `targets` tensors, rows i64[n], values
// [n, …] and scalars, operands of the types `scalars`; results are the tensors.
struct RowUpdate {
  std::size_t targets = 1;
  std::vector<std::string> scalars{};
  std::string before{};  // code before the step; sees the scalars as b0, b1, …
  // Code that changes x0, x1, … of type T by the sum g of type G. A row out of range is left out: the CPU refuses it.
  std::string step{};
  CodeNames names{};
};

// Sorts the rows; one thread per element of a row's first entry sums all of them in their order, so that runs have the
// same bits. Null for other dtypes than f32 and f64, and for too many rows.
std::unique_ptr<kernels::Plan> plan_row_update(const kernels::PlanRequest& request, const RowUpdate& update);

}  // namespace starling::cuda
