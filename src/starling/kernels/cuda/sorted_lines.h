#pragma once

#include <optional>

#include "starling/kernels/cuda/stages.h"

namespace starling::cuda {

// Lines along an axis of a dense tensor: line o · inner + j has the elements (o · size + i) · inner + j.
struct Lines {
  std::int64_t outer = 1, size = 0, inner = 1;
  static Lines along(const Shape& shape, int axis);
  std::int64_t count() const { return outer * inner; }
  std::int64_t elements() const { return outer * size * inner; }
};

// Stable sort of every line of values, by radix on the device: -0 equals 0, NaN is greater than any number. It leaves
// in scratch, for every line after line, the positions of its elements in order, as line · size + i (u32), and, for a
// single line, their keys, equal where the values are.
class SortedLines {
 public:
  // Empty for dtypes without a C type and for 2^32 elements or more. `from` holds the values, `scratch` is where the
  // sort's part of the scratch begins, a multiple of 256.
  static std::optional<SortedLines> plan(DType dtype, const Lines& lines, bool descending, Pointer from,
                                         std::size_t scratch = 0);
  void run(const kernels::Launch& launch) const;
  Pointer positions() const { return {Pointer::Of::scratch, positions_}; }
  Pointer keys() const { return {Pointer::Of::scratch, keys_}; }
  std::size_t scratch_bytes() const { return end_; }  // where its part ends, a multiple of 256

 private:
  std::vector<std::shared_ptr<const kernels::Plan>> steps_;
  std::size_t positions_ = 0, keys_ = 0, end_ = 0;
};

// The sort, then stages that read what it left in scratch.
std::unique_ptr<kernels::Plan> plan_after(SortedLines sorted, std::vector<Stage> stages, std::size_t scratch_bytes = 0);

}  // namespace starling::cuda
