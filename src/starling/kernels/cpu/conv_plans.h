#pragma once

#include "starling/kernels/cpu/conv_panels.h"
#include "starling/kernels/cpu/conv_shape.h"
#include "starling/kernels/cpu/conv_winograd.h"
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

// The gradient for x from (dy, weight), which is the transposed convolution too. The first three are null where they
// are not meant for the geometry; the last takes everything in f32 and f64.
std::unique_ptr<Plan> depthwise_data(const PlanRequest& request, const ConvGeometry& geometry);
std::unique_ptr<Plan> winograd_data(const PlanRequest& request, const ConvGeometry& geometry);
std::unique_ptr<Plan> panels_data(const PlanRequest& request, const ConvGeometry& geometry);
std::unique_ptr<Plan> columns_data(const PlanRequest& request, const ConvGeometry& geometry);

// The plan followed by adding the third operand, a bias by channel of x.
std::unique_ptr<Plan> with_bias(std::unique_ptr<Plan> plan, const ConvGeometry& geometry, DType dtype);

// Whether the f32 kernels are meant for it.
bool is_depthwise(const PlanRequest& request, const ConvGeometry& geometry);
std::optional<WinogradScheme> winograd_takes(const PlanRequest& request, const ConvGeometry& geometry);
bool panels_take(const PlanRequest& request, const ConvGeometry& geometry, PanelConv::Pass pass);

}  // namespace starling::conv_plans
