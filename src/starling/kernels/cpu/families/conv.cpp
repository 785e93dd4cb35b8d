#include "starling/ops/api/conv.h"

#include <algorithm>

#include "starling/kernels/cpu/conv/conv_columns.h"
#include "starling/kernels/cpu/conv/conv_depthwise.h"
#include "starling/kernels/cpu/conv/conv_im2col.h"
#include "starling/kernels/cpu/conv/conv_panels.h"
#include "starling/kernels/cpu/conv/conv_plans.h"
#include "starling/kernels/cpu/conv/conv_winograd.h"
#include "starling/kernels/cpu/gemm/product.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

using conv_plans::has_work;
using conv_plans::image_shape;
using conv_plans::is_depthwise;
using conv_plans::is_image;
using conv_plans::panels_take;
using conv_plans::plan_zeros;
using conv_plans::winograd_takes;

// Forward pass of f32 images by im2col; everything else goes through ColumnConv.
std::unique_ptr<Plan> image_forward(const ConvGeometry& g, GemmActivation activation, bool biased, int threads) {
  const Conv2dShape shape = image_shape(g);
  return make_plan(conv2d_forward_scratch(shape, threads), [=](const Launch& l) {
    conv2d_forward(shape, input<float>(l, 0), input<float>(l, 1), biased ? input<float>(l, 2) : nullptr, activation,
                   output<float>(l), l.scratch, threads);
  });
}

template <class T>
std::unique_ptr<Plan> columns_forward(const ConvGeometry& g, GemmActivation activation, bool biased, int threads) {
  const ColumnConv<T> conv(g, ColumnConv<T>::Pass::forward, threads);
  return make_plan(conv.scratch_bytes(), [=](const Launch& l) {
    conv.forward(input<T>(l, 0), input<T>(l, 1), biased ? input<T>(l, 2) : nullptr, activation, output<T>(l),
                 l.scratch);
  });
}

template <class A>
std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  const DType dtype = request.in[0].dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return nullptr;
  const auto& a = request.attrs.as<A>();
  const ConvGeometry g = conv_geometry(request.in[0].shape, request.in[1].shape, a, request.op.name.c_str());
  if (!has_work(g)) return g.y.numel() == 0 ? plan_zeros(request) : nullptr;
  const GemmActivation activation = gemm_activation(a.activation);
  const bool biased = request.in.size() == 3;
  if (dtype == DType::f64) return columns_forward<double>(g, activation, biased, request.threads);
  if (is_image(g)) return image_forward(g, activation, biased, request.threads);
  return columns_forward<float>(g, activation, biased, request.threads);
}

template <class T>
std::unique_ptr<Plan> columns_weight(const ConvGeometry& g, int threads) {
  const ColumnConv<T> conv(g, ColumnConv<T>::Pass::weight, threads);
  return make_plan(conv.scratch_bytes(), [=](const Launch& l) {
    conv.backward_weight(input<T>(l, 1), input<T>(l, 0), output<T>(l), l.scratch);
  });
}

using DataPlan = std::unique_ptr<Plan> (*)(const PlanRequest&, const ConvGeometry&);

template <class G, DataPlan data>
std::unique_ptr<Plan> plan_backward_input(const PlanRequest& request) {
  const auto& a = request.attrs.as<G>();
  return data(request, conv_geometry(a.shape, request.in[1].shape, a, request.op.name.c_str()));
}

template <class G>
std::unique_ptr<Plan> plan_backward_weight(const PlanRequest& request) {
  const DType dtype = request.in[0].dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return nullptr;
  const auto& a = request.attrs.as<G>();
  const ConvGeometry g = conv_geometry(request.in[1].shape, a.shape, a, request.op.name.c_str());
  if (!has_work(g)) return plan_zeros(request);
  if (dtype == DType::f64) return columns_weight<double>(g, request.threads);
  if (!is_image(g)) return columns_weight<float>(g, request.threads);
  const Conv2dShape shape = image_shape(g);
  return make_plan(conv2d_backward_weight_scratch(shape, request.threads),
                   [shape, threads = request.threads](const Launch& l) {
                     conv2d_backward_weight(shape, input<float>(l, 1), input<float>(l, 0), output<float>(l), nullptr,
                                            false, l.scratch, threads);
                   });
}

// Plan functions below return null for geometries they do not suit; the next kernel is tried then.
std::unique_ptr<Plan> plan_winograd_forward(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::Conv2dAttrs>();
  const ConvGeometry g = conv_geometry(request.in[0].shape, request.in[1].shape, a, "conv2d");
  const GemmActivation activation = gemm_activation(a.activation);
  const bool relu = activation == GemmActivation::kRelu;
  const auto scheme = winograd_takes(request, g);
  if (!scheme || (!relu && activation != GemmActivation::kNone)) return nullptr;
  const Conv2dShape shape = image_shape(g);
  return make_plan(winograd_forward_scratch(shape, *scheme, request.threads),
                   [=, scheme = *scheme, biased = request.in.size() == 3, threads = request.threads](const Launch& l) {
                     winograd_forward(shape, scheme, input<float>(l, 0), input<float>(l, 1),
                                      biased ? input<float>(l, 2) : nullptr, relu, output<float>(l), l.scratch,
                                      threads);
                   });
}

std::unique_ptr<Plan> plan_winograd_weight(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::Conv2dGradAttrs>();
  const ConvGeometry g = conv_geometry(request.in[1].shape, a.shape, a, "conv2d_backward_weight");
  const auto scheme = winograd_takes(request, g);
  if (!scheme) return nullptr;
  const Conv2dShape shape = image_shape(g);
  return make_plan(winograd_backward_weight_scratch(shape, *scheme, request.threads),
                   [shape, scheme = *scheme, threads = request.threads](const Launch& l) {
                     winograd_backward_weight(shape, scheme, input<float>(l, 1), input<float>(l, 0), output<float>(l),
                                              l.scratch, threads);
                   });
}

std::unique_ptr<Plan> plan_panels_forward(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::Conv2dAttrs>();
  const ConvGeometry g = conv_geometry(request.in[0].shape, request.in[1].shape, a, "conv2d");
  const GemmActivation activation = gemm_activation(a.activation);
  const bool relu = activation == GemmActivation::kRelu, biased = request.in.size() == 3;
  if (!panels_take(request, g, PanelConv::Pass::forward) || (!relu && activation != GemmActivation::kNone))
    return nullptr;
  PanelConv conv(image_shape(g), PanelConv::Pass::forward, request.threads);
  const std::size_t bytes = conv.scratch_bytes();
  return make_plan(bytes, [conv = std::move(conv), relu, biased](const Launch& l) {
    conv.forward(input<float>(l, 0), input<float>(l, 1), biased ? input<float>(l, 2) : nullptr, relu, output<float>(l),
                 l.scratch);
  });
}

std::unique_ptr<Plan> plan_panels_weight(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::Conv2dGradAttrs>();
  const ConvGeometry g = conv_geometry(request.in[1].shape, a.shape, a, "conv2d_backward_weight");
  if (!panels_take(request, g, PanelConv::Pass::weight)) return nullptr;
  PanelConv conv(image_shape(g), PanelConv::Pass::weight, request.threads);
  const std::size_t bytes = conv.scratch_bytes();
  return make_plan(bytes, [conv = std::move(conv)](const Launch& l) {
    conv.backward_weight(input<float>(l, 1), input<float>(l, 0), output<float>(l), l.scratch);
  });
}

template <class A>
std::unique_ptr<Plan> plan_depthwise_forward(const PlanRequest& request) {
  const auto& a = request.attrs.as<A>();
  const ConvGeometry g = conv_geometry(request.in[0].shape, request.in[1].shape, a, request.op.name.c_str());
  const GemmActivation activation = gemm_activation(a.activation);
  const bool relu = activation == GemmActivation::kRelu, biased = request.in.size() == 3;
  if (!is_depthwise(request, g) || (!relu && activation != GemmActivation::kNone)) return nullptr;
  DepthwiseConv conv(image_shape(g), request.threads);
  const std::size_t bytes = conv.scratch_bytes();
  return make_plan(bytes, [conv = std::move(conv), relu, biased](const Launch& l) {
    conv.forward(input<float>(l, 0), input<float>(l, 1), biased ? input<float>(l, 2) : nullptr, relu, output<float>(l),
                 l.scratch);
  });
}

std::unique_ptr<Plan> plan_depthwise_weight(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::Conv2dGradAttrs>();
  const ConvGeometry g = conv_geometry(request.in[1].shape, a.shape, a, "conv2d_backward_weight");
  if (!is_depthwise(request, g)) return nullptr;
  DepthwiseConv conv(image_shape(g), request.threads);
  const std::size_t bytes = conv.scratch_bytes();
  return make_plan(bytes, [conv = std::move(conv)](const Launch& l) {
    conv.backward_weight(input<float>(l, 1), input<float>(l, 0), output<float>(l), l.scratch);
  });
}

}  // namespace

void register_cpu_conv(KernelTable& table) {
  const auto add = [&](const char* op, const char* name, std::unique_ptr<Plan> (*plan)(const PlanRequest&)) {
    table.add(op, DeviceKind::cpu, {name, Accepts::contiguous, plan});
  };
  add("conv1d", "depthwise", plan_depthwise_forward<op::Conv1dAttrs>);
  add("conv2d", "depthwise", plan_depthwise_forward<op::Conv2dAttrs>);
  add("conv2d_backward_input", "depthwise", plan_backward_input<op::Conv2dGradAttrs, conv_plans::depthwise_data>);
  add("conv2d_backward_weight", "depthwise", plan_depthwise_weight);
  add("conv2d", "winograd", plan_winograd_forward);
  add("conv2d_backward_input", "winograd", plan_backward_input<op::Conv2dGradAttrs, conv_plans::winograd_data>);
  add("conv2d_backward_weight", "winograd", plan_winograd_weight);
  add("conv2d", "panels", plan_panels_forward);
  add("conv2d_backward_input", "panels", plan_backward_input<op::Conv2dGradAttrs, conv_plans::panels_data>);
  add("conv2d_backward_weight", "panels", plan_panels_weight);
  add("conv1d", "im2col", plan_forward<op::Conv1dAttrs>);
  add("conv2d", "im2col", plan_forward<op::Conv2dAttrs>);
  add("conv3d", "im2col", plan_forward<op::Conv3dAttrs>);
  add("conv2d_backward_input", "im2col", plan_backward_input<op::Conv2dGradAttrs, conv_plans::columns_data>);
  add("conv3d_backward_input", "im2col", plan_backward_input<op::Conv3dGradAttrs, conv_plans::columns_data>);
  add("conv2d_backward_weight", "im2col", plan_backward_weight<op::Conv2dGradAttrs>);
  add("conv3d_backward_weight", "im2col", plan_backward_weight<op::Conv3dGradAttrs>);
}

}  // namespace starling::kernels
