#pragma once

#include "starling/kernels/cpu/conv/conv_panels.h"
#include "starling/kernels/cpu/conv/conv_shape.h"
#include "starling/kernels/cpu/conv/conv_winograd.h"
#include "starling/kernels/kernel.h"
#include "starling/kernels/launch_args.h"
#include "starling/ops/def/conv_geometry.h"

namespace starling::kernels::conv_plans {

// Helpers shared by the plans of convolutions and transposed convolutions.
inline bool has_work(const ConvGeometry& g) { return g.x.numel() > 0 && g.y.numel() > 0 && g.w.numel() > 0; }

// True if the f32 kernels for 2-d images apply. Long 1-d lines are better split into ranges.
bool is_image(const ConvGeometry& g);
Conv2dShape image_shape(const ConvGeometry& g);

std::unique_ptr<Plan> plan_zeros(const PlanRequest& request);

// Plans of the gradient for x from (dy, weight), which is the transposed convolution too. The first three are null
// where they do not suit the geometry; the last takes everything in f32 and f64.
std::unique_ptr<Plan> depthwise_data(const PlanRequest& request, const ConvGeometry& geometry);
std::unique_ptr<Plan> winograd_data(const PlanRequest& request, const ConvGeometry& geometry);
std::unique_ptr<Plan> panels_data(const PlanRequest& request, const ConvGeometry& geometry);
std::unique_ptr<Plan> columns_data(const PlanRequest& request, const ConvGeometry& geometry);

// Wraps a plan to add the third operand afterwards, a bias per channel of x.
std::unique_ptr<Plan> with_bias(std::unique_ptr<Plan> plan, const ConvGeometry& geometry, DType dtype);

// Applicability of the f32 kernels.
bool is_depthwise(const PlanRequest& request, const ConvGeometry& geometry);
std::optional<WinogradScheme> winograd_takes(const PlanRequest& request, const ConvGeometry& geometry);
bool panels_take(const PlanRequest& request, const ConvGeometry& geometry, PanelConv::Pass pass);

}  // namespace starling::kernels::conv_plans
