#pragma once

#include "starling/kernels/cpu/conv_shape.h"
#include "starling/kernels/kernel.h"
#include "starling/ops/conv_geometry.h"

namespace starling::conv_plans {

// What the plans of convolutions and transposed convolutions share.
template <class T>
const T* operand(const Launch& launch, std::size_t i) {
  return static_cast<const T*>(launch.in[i]);
}
template <class T>
T* result(const Launch& launch) {
  return static_cast<T*>(launch.out[0]);
}

inline bool has_work(const ConvGeometry& g) { return g.x.numel() > 0 && g.y.numel() > 0 && g.w.numel() > 0; }

// Whether the kernels of images in f32 take it: rows of one plane. Long lines are better cut into ranges.
bool is_image(const ConvGeometry& g);
Conv2dShape image_shape(const ConvGeometry& g);

std::unique_ptr<Plan> plan_zeros(const PlanRequest& request);

// The gradient for x from (dy, weight), which is the transposed convolution too: a third operand is a bias.
std::unique_ptr<Plan> plan_data(const PlanRequest& request, const ConvGeometry& geometry);

}  // namespace starling::conv_plans
