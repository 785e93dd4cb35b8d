#pragma once

#include "starling/kernels/cuda/convolution.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/cuda/stream.h"

namespace starling::cuda {

// True if some product is to be summed. Without any, an output is empty or zero, and the caller's plain kernel serves.
inline bool has_products(const device::Conv& c) {
  const auto volume = [](const int(&size)[3]) { return static_cast<long long>(size[0]) * size[1] * size[2]; };
  return c.n > 0 && c.c > 0 && c.o > 0 && volume(c.x) > 0 && volume(c.k) > 0 && volume(c.y) > 0;
}

// Plan of a convolution of cuDNN: two operands, one result. An operand that is not stored as cuDNN needs it is copied
// before, such a result after. `epilogue`, if any, then runs on the result. Null if cuDNN has no such convolution.
std::unique_ptr<kernels::Plan> plan_cudnn(ConvPass pass, const device::Conv& conv, const kernels::PlanRequest& request,
                                          std::shared_ptr<const kernels::Plan> epilogue = nullptr);

// Plan of a forward convolution of x, w and a bias, operands 0 to 2, and a residual where there is a fourth, that the
// library computes in one: with its activation. Null if it cannot, or if a kernel of its own that finishes is faster.
std::unique_ptr<kernels::Plan> plan_finished(const device::Conv& conv, const kernels::PlanRequest& request,
                                             device::Activation activation);

// Plan of a forward convolution: finished by the library, or by a kernel after it.
std::unique_ptr<kernels::Plan> plan_forward(const device::Conv& conv, const kernels::PlanRequest& request,
                                            device::Activation activation);

// Plan of a convolution of a few channels, forward or for its weights, as one of more channels where that is faster;
// null where it is not.
std::unique_ptr<kernels::Plan> plan_few_channels(ConvPass pass, const device::Conv& conv,
                                                 const kernels::PlanRequest& request, device::Activation activation);

inline std::unique_ptr<kernels::Plan> plan_nothing() {
  return kernels::make_plan([](const kernels::Launch&) {});
}

// Epilogue that adds a bias [channels], operand 2, to the result [n, channels, sizes...], and a residual if there is an
// operand 3, and applies an activation; null if there is neither.
std::shared_ptr<const kernels::Plan> plan_bias_epilogue(const kernels::PlanRequest& request, bool biased,
                                                        device::Activation activation);

}  // namespace starling::cuda
