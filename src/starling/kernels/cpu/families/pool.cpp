#include "starling/ops/pool.h"

#include "starling/kernels/cpu/pool.h"
#include "starling/kernels/cpu/pool_index.h"
#include "starling/kernels/kernel_table.h"

namespace starling {
namespace {

template <class Attributes>
Pool2dShape pool_shape(const Shape& x, const Attributes& a) {
  Pool2dShape s;
  s.planes = x[0] * x[1], s.in_h = x[2], s.in_w = x[3];
  s.kernel_h = a.kernel[0], s.kernel_w = a.kernel[1];
  s.stride_h = a.stride[0], s.stride_w = a.stride[1];
  s.pad_h = a.padding[0], s.pad_w = a.padding[1];
  return s;
}

template <class T>
const T* operand(const Launch& launch) {
  return static_cast<const T*>(launch.in[0]);
}
const std::uint8_t* index_of(const Launch& launch) { return static_cast<const std::uint8_t*>(launch.in[1]); }
template <class T>
T* result(const Launch& launch) {
  return static_cast<T*>(launch.out[0]);
}

template <class F>
std::unique_ptr<Plan> for_floats(DType dtype, F&& f) {
  if (dtype == DType::f32) return f.template operator()<float>();
  if (dtype == DType::f64) return f.template operator()<double>();
  return nullptr;
}

std::unique_ptr<Plan> plan_max(const PlanRequest& request) {
  const Pool2dShape shape = pool_shape(request.in[0].shape, request.attrs.as<Pool2dAttrs>());
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([shape, threads = request.threads](const Launch& l) {
      max_pool2d_choose(shape, operand<T>(l), result<T>(l), static_cast<std::uint8_t*>(l.out[1]), threads);
    });
  });
}

std::unique_ptr<Plan> plan_max_backward(const PlanRequest& request) {
  const auto& a = request.attrs.as<Pool2dGradAttrs>();
  const Pool2dShape shape = pool_shape(a.shape, a);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([shape, threads = request.threads](const Launch& l) {
      max_pool2d_scatter(shape, operand<T>(l), index_of(l), result<T>(l), threads);
    });
  });
}

std::unique_ptr<Plan> plan_gather(const PlanRequest& request) {
  const Pool2dShape shape = pool_shape(request.in[0].shape, request.attrs.as<Pool2dAttrs>());
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([shape, threads = request.threads](const Launch& l) {
      max_pool2d_gather(shape, operand<T>(l), index_of(l), result<T>(l), threads);
    });
  });
}

std::unique_ptr<Plan> plan_avg(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  const Pool2dShape shape = pool_shape(request.in[0].shape, request.attrs.as<Pool2dAttrs>());
  return make_plan([shape, threads = request.threads](const Launch& l) {
    if (shape.planes > 0) avg_pool2d_forward(shape, operand<float>(l), result<float>(l), threads);
  });
}

std::unique_ptr<Plan> plan_avg_backward(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  const auto& a = request.attrs.as<Pool2dGradAttrs>();
  const Pool2dShape shape = pool_shape(a.shape, a);
  return make_plan([shape, threads = request.threads](const Launch& l) {
    if (shape.planes > 0) avg_pool2d_backward(shape, operand<float>(l), result<float>(l), threads);
  });
}

}  // namespace

void register_cpu_pool(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, {"windows", Accepts::contiguous, plan});
  };
  add("max_pool2d", plan_max);
  add("max_pool2d_backward", plan_max_backward);
  add("max_pool2d_gather", plan_gather);
  add("avg_pool2d", plan_avg);
  add("avg_pool2d_backward", plan_avg_backward);
}

}  // namespace starling
