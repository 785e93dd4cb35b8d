#include "starling/kernels/cpu/conv_plans.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/conv_columns.h"
#include "starling/kernels/cpu/conv_im2col.h"

namespace starling::conv_plans {

bool is_image(const ConvGeometry& g) { return g.x[2] == 1 && g.w[2] == 1 && g.y[2] == 1 && g.y[3] > 1; }

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
  const auto bytes = static_cast<std::size_t>(request.out[0].shape.numel()) * size_of(request.out[0].dtype);
  return make_plan([bytes](const Launch& launch) { std::fill_n(static_cast<char*>(launch.out[0]), bytes, char(0)); });
}

namespace {

template <class T>
void fill_planes(T* to, std::int64_t planes, std::int64_t plane, const T* bias, std::int64_t channels, bool add) {
  parallel_for(planes, std::max<std::int64_t>(1, 32 * 1024 / std::max<std::int64_t>(1, plane)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t p = begin; p < end; ++p) {
                   const T value = bias[p % channels];
                   T* at = to + p * plane;
                   for (std::int64_t i = 0; i < plane; ++i) at[i] = add ? at[i] + value : value;
                 }
               });
}

// Nothing flows back: the result is the bias alone.
template <class T>
std::unique_ptr<Plan> plan_bias(const ConvGeometry& g) {
  return make_plan([=](const Launch& l) {
    fill_planes(result<T>(l), g.x[0] * g.x[1], g.x[2] * g.x[3] * g.x[4], operand<T>(l, 2), g.x[1], false);
  });
}

template <class T>
std::unique_ptr<Plan> columns_data(const ConvGeometry& g, bool biased, int threads) {
  const ColumnConv<T> conv(g, ColumnConv<T>::Pass::data, threads);
  return make_plan(conv.scratch_bytes(), [=](const Launch& l) {
    conv.backward_data(operand<T>(l, 0), operand<T>(l, 1), biased ? operand<T>(l, 2) : nullptr, result<T>(l),
                       l.scratch);
  });
}

std::unique_ptr<Plan> image_data(const ConvGeometry& g, bool biased, int threads) {
  const Conv2dShape shape = image_shape(g);
  return make_plan(conv2d_backward_data_scratch(shape, threads), [=](const Launch& l) {
    conv2d_backward_data(shape, operand<float>(l, 0), operand<float>(l, 1), result<float>(l), l.scratch, threads);
    if (!biased) return;
    fill_planes(result<float>(l), g.x[0] * g.x[1], g.x[3] * g.x[4], operand<float>(l, 2), g.x[1], true);
  });
}

}  // namespace

std::unique_ptr<Plan> plan_data(const PlanRequest& request, const ConvGeometry& g) {
  const DType dtype = request.in[0].dtype;
  const bool biased = request.in.size() == 3;
  if (dtype != DType::f32 && dtype != DType::f64) return nullptr;
  if (!has_work(g)) {
    if (!biased) return plan_zeros(request);
    return dtype == DType::f64 ? plan_bias<double>(g) : plan_bias<float>(g);
  }
  if (dtype == DType::f64) return columns_data<double>(g, biased, request.threads);
  if (is_image(g)) return image_data(g, biased, request.threads);
  return columns_data<float>(g, biased, request.threads);
}

}  // namespace starling::conv_plans
