#pragma once

#include "starling/kernels/cuda/convolution.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/cuda/stream.h"

namespace starling::cuda {

// Empty: nothing is computed, or there is nothing to sum; the caller's plain kernel writes zeros or nothing.
inline bool has_products(const device::Conv& c) {
  const auto volume = [](const int(&size)[3]) { return static_cast<long long>(size[0]) * size[1] * size[2]; };
  return c.n > 0 && c.c > 0 && c.o > 0 && volume(c.x) > 0 && volume(c.k) > 0 && volume(c.y) > 0;
}

// Plan of a library's convolution: two operands to one result, each copied first or last where it is not stored as the
// library's kernel has it. `end`, if any, follows on the result. Null if the library has none.
std::unique_ptr<kernels::Plan> plan_cudnn(ConvPass pass, const device::Conv& conv, const kernels::PlanRequest& request,
                                          std::shared_ptr<const kernels::Plan> end = nullptr);

inline std::unique_ptr<kernels::Plan> plan_nothing() {
  return kernels::make_plan([](const kernels::Launch&) {});
}

// Adds a bias [channels], operand 2, to the result [n, channels, sizes...], and applies an activation; null: nothing to
// do.
std::shared_ptr<const kernels::Plan> plan_bias_end(const kernels::PlanRequest& request, bool biased,
                                                   device::Activation activation);

}  // namespace starling::cuda
