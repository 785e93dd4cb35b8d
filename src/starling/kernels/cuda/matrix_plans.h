#pragma once

#include <limits>
#include <optional>

#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/device/matrix.h"
#include "starling/kernels/cuda/stream.h"

namespace starling::cuda {

// Matrices in the last two dimensions of an operand; none for other dtypes than f32 and f64 and for sizes above an int.
inline std::optional<device::Matrices> matrices_of(const kernels::ArgDesc& a) {
  const int rank = a.shape.rank();
  if (!is_plain_float(a.dtype) || a.shape[rank - 2] + a.shape[rank - 1] > std::numeric_limits<int>::max())
    return std::nullopt;
  device::Matrices m{1, static_cast<int>(a.shape[rank - 2]), static_cast<int>(a.shape[rank - 1]),
                     a.dtype == DType::f64};
  for (int d = 0; d + 2 < rank; ++d) m.count *= a.shape[d];
  return m;
}

// Plan that runs `enqueue(launch)`, which returns a status.
template <class Enqueue>
std::unique_ptr<kernels::Plan> plan_matrices(unsigned long long scratch_bytes, Enqueue enqueue) {
  return kernels::make_plan(
      scratch_bytes, [enqueue](const kernels::Launch& launch) { check_cuda(enqueue(launch), "launching a kernel"); });
}

}  // namespace starling::cuda
