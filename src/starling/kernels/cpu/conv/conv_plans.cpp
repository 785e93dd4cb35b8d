#include "starling/kernels/cpu/conv/conv_plans.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/conv/conv_columns.h"
#include "starling/kernels/cpu/conv/conv_depthwise.h"
#include "starling/kernels/cpu/conv/conv_im2col.h"
#include "starling/kernels/cpu/conv/conv_winograd.h"

namespace starling::kernels::conv_plans {

namespace {

// A volume of depth 1 is an image unless padding lies along the depth: its one output then reads the padding.
bool is_flat(const ConvGeometry& g) { return g.x[2] == 1 && g.w[2] == 1 && g.y[2] == 1 && g.padding[0] == 0; }

}  // namespace

bool is_image(const ConvGeometry& g) { return is_flat(g) && g.y[3] > 1; }

Conv2dShape image_shape(const ConvGeometry& g) {
  Conv2dShape s;
  s.batch = g.x[0], s.in_channels = g.x[1], s.in_h = g.x[3], s.in_w = g.x[4];
  s.out_channels = g.w[0], s.kernel_h = g.w[3], s.kernel_w = g.w[4];
  s.stride_h = g.stride[1], s.stride_w = g.stride[2];
  s.pad_h = g.padding[1], s.pad_w = g.padding[2];
  s.dilation_h = g.dilation[1], s.dilation_w = g.dilation[2];
  s.groups = g.groups;
  return s;
}

std::unique_ptr<Plan> plan_zeros(const PlanRequest& request) {
  const auto bytes = bytes_of(request.out[0]);
  return make_plan([bytes](const Launch& launch) { std::fill_n(static_cast<char*>(launch.out[0]), bytes, char(0)); });
}

bool is_depthwise(const PlanRequest& request, const ConvGeometry& g) {
  return request.in[0].dtype == DType::f32 && has_work(g) && is_flat(g) && DepthwiseConv::takes(image_shape(g));
}

std::optional<WinogradScheme> winograd_takes(const PlanRequest& request, const ConvGeometry& g) {
  if (request.in[0].dtype != DType::f32 || !has_work(g) || !is_image(g)) return {};
  return winograd_scheme(image_shape(g), request.threads);
}

bool panels_take(const PlanRequest& request, const ConvGeometry& g, PanelConv::Pass pass) {
  return request.in[0].dtype == DType::f32 && has_work(g) && is_image(g) &&
         PanelConv::takes(image_shape(g), pass, request.threads);
}

std::unique_ptr<Plan> depthwise_data(const PlanRequest& request, const ConvGeometry& g) {
  if (!is_depthwise(request, g)) return nullptr;
  DepthwiseConv conv(image_shape(g), request.threads);
  const std::size_t bytes = conv.scratch_bytes();
  return make_plan(bytes, [conv = std::move(conv)](const Launch& l) {
    conv.backward_data(input<float>(l, 0), input<float>(l, 1), output<float>(l), l.scratch);
  });
}

std::unique_ptr<Plan> winograd_data(const PlanRequest& request, const ConvGeometry& g) {
  const auto scheme = winograd_takes(request, g);
  if (!scheme) return nullptr;
  const Conv2dShape shape = image_shape(g);
  return make_plan(winograd_backward_data_scratch(shape, *scheme, request.threads),
                   [shape, scheme = *scheme, threads = request.threads](const Launch& l) {
                     winograd_backward_data(shape, scheme, input<float>(l, 0), input<float>(l, 1), output<float>(l),
                                            l.scratch, threads);
                   });
}

std::unique_ptr<Plan> panels_data(const PlanRequest& request, const ConvGeometry& g) {
  if (!panels_take(request, g, PanelConv::Pass::data)) return nullptr;
  PanelConv conv(image_shape(g), PanelConv::Pass::data, request.threads);
  const std::size_t bytes = conv.scratch_bytes();
  return make_plan(bytes, [conv = std::move(conv)](const Launch& l) {
    conv.backward_data(input<float>(l, 0), input<float>(l, 1), output<float>(l), l.scratch);
  });
}

namespace {

template <class T>
std::unique_ptr<Plan> make_columns_data(const ConvGeometry& g, int threads) {
  const ColumnConv<T> conv(g, ColumnConv<T>::Pass::data, threads);
  return make_plan(conv.scratch_bytes(), [=](const Launch& l) {
    conv.backward_data(input<T>(l, 0), input<T>(l, 1), output<T>(l), l.scratch);
  });
}

template <class T>
std::unique_ptr<Plan> make_with_bias(std::unique_ptr<Plan> plan, const ConvGeometry& g) {
  const std::size_t bytes = plan->scratch_bytes;
  return make_plan(bytes, [plan = std::move(plan), g](const Launch& l) {
    plan->run(l);
    const std::int64_t plane = g.x[2] * g.x[3] * g.x[4];
    const std::int64_t grain = std::max<std::int64_t>(1, 32 * 1024 / std::max<std::int64_t>(1, plane));
    parallel_for(g.x[0] * g.x[1], grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        const T value = input<T>(l, 2)[p % g.x[1]];
        T* at = output<T>(l) + p * plane;
        for (std::int64_t i = 0; i < plane; ++i) at[i] += value;
      }
    });
  });
}

}  // namespace

std::unique_ptr<Plan> columns_data(const PlanRequest& request, const ConvGeometry& g) {
  const DType dtype = request.in[0].dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return nullptr;
  if (!has_work(g)) return plan_zeros(request);
  if (dtype == DType::f64) return make_columns_data<double>(g, request.threads);
  if (!is_image(g)) return make_columns_data<float>(g, request.threads);
  const Conv2dShape shape = image_shape(g);
  return make_plan(
      conv2d_backward_data_scratch(shape, request.threads), [shape, threads = request.threads](const Launch& l) {
        conv2d_backward_data(shape, input<float>(l, 0), input<float>(l, 1), output<float>(l), l.scratch, threads);
      });
}

std::unique_ptr<Plan> with_bias(std::unique_ptr<Plan> plan, const ConvGeometry& g, DType dtype) {
  if (dtype == DType::f64) return make_with_bias<double>(std::move(plan), g);
  return make_with_bias<float>(std::move(plan), g);
}

}  // namespace starling::kernels::conv_plans
