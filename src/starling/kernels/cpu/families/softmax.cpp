#include "starling/kernels/cpu/norm/softmax.h"

#include <algorithm>

#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

struct RowsShape {
  std::int64_t rows;
  std::int64_t cols;
};

RowsShape rows_of(const Shape& shape) {
  const auto cols = shape.back();
  return {cols == 0 ? 0 : shape.numel() / cols, cols};
}

template <class T>
using Forward = void (*)(const T*, T*, std::int64_t, std::int64_t);
template <class T>
using Backward = void (*)(const T*, const T*, T*, std::int64_t, std::int64_t);

template <class T>
std::unique_ptr<Plan> make(const PlanRequest& request, Forward<T> fn) {
  return make_plan([fn, s = rows_of(request.in[0].shape)](const Launch& launch) {
    if (s.rows > 0) fn(static_cast<const T*>(launch.in[0]), static_cast<T*>(launch.out[0]), s.rows, s.cols);
  });
}

template <class T>
std::unique_ptr<Plan> make(const PlanRequest& request, Backward<T> fn) {
  return make_plan([fn, s = rows_of(request.in[0].shape)](const Launch& launch) {
    if (s.rows == 0) return;
    fn(static_cast<const T*>(launch.in[0]), static_cast<const T*>(launch.in[1]), static_cast<T*>(launch.out[0]), s.rows,
       s.cols);
  });
}

template <class F32, class F64>
auto planner(F32 f32, F64 f64) {
  return [=](const PlanRequest& request) -> std::unique_ptr<Plan> {
    if (request.in[0].dtype == DType::f32) return make<float>(request, f32);
    if (request.in[0].dtype == DType::f64) return make<double>(request, f64);
    return nullptr;
  };
}

}  // namespace

void register_cpu_softmax(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, {"simd", Accepts::contiguous, plan});
  };
  add("softmax", planner(&softmax<float>, &softmax<double>));
  add("log_softmax", planner(&log_softmax<float>, &log_softmax<double>));
  add("softmax_backward", planner(&softmax_backward<float>, &softmax_backward<double>));
  add("log_softmax_backward", planner(&log_softmax_backward<float>, &log_softmax_backward<double>));
}

}  // namespace starling::kernels
