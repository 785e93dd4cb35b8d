#include <algorithm>
#include <cmath>

#include "starling/base/parallel.h"
#include "starling/kernels/by_float.h"
#include "starling/kernels/cpu/norm/normalize_relu.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/launch_args.h"
#include "starling/ops/api/normalize.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kGrain = 16384;

// x [n, c, ...] as [images, channels, length]: a channel is processed while it stays in cache.
struct Channels {
  std::int64_t images, channels, length = 1;
  explicit Channels(const Shape& shape) : images(shape[0]), channels(shape[1]) {
    for (int d = 2; d < shape.rank(); ++d) length *= shape[d];
  }
  double count() const { return static_cast<double>(images * length); }
  Runs runs() const { return {images, channels * length, length}; }

  template <class F>
  void for_each(F&& f) const {
    const std::int64_t work = std::max<std::int64_t>(images * length, 1);
    parallel_for(channels, std::max<std::int64_t>(kGrain / work, 1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) f(c);
    });
  }
};

template <class T>
std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  const Channels s(request.in[0].shape);
  const double eps = request.attrs.as<op::EpsAttrs>().eps;
  const bool residual = request.in.size() > 3;
  return make_plan([=](const Launch& launch) {
    const auto fns = normalize_fns<T>();
    const auto relu = normalize_relu_fns<T>();
    s.for_each([&](std::int64_t c) {
      const std::int64_t at = c * s.length;
      double mean = 0, m2 = 0;
      fns.moments(input<T>(launch, 0) + at, s.runs(), &mean, &m2);
      const double var = m2 / s.count();
      const double scale = static_cast<double>(input<T>(launch, 1)[c]) / std::sqrt(var + eps);
      output<T>(launch, 1)[c] = static_cast<T>(mean);
      output<T>(launch, 2)[c] = static_cast<T>(var);
      relu.forward(input<T>(launch, 0) + at, residual ? input<T>(launch, 3) + at : nullptr, output<T>(launch, 0) + at,
                   s.runs(), static_cast<T>(mean), static_cast<T>(scale), input<T>(launch, 2)[c]);
    });
  });
}

template <class T>
std::unique_ptr<Plan> plan_backward(const PlanRequest& request) {
  const Channels s(request.in[2].shape);
  const double eps = request.attrs.as<op::EpsAttrs>().eps;
  return make_plan([=](const Launch& launch) {
    const auto relu = normalize_relu_fns<T>();
    s.for_each([&](std::int64_t c) {
      const std::int64_t at = c * s.length;
      const T *dy = input<T>(launch, 0) + at, *y = input<T>(launch, 1) + at, *x = input<T>(launch, 2) + at;
      const T mean = input<T>(launch, 3)[c];
      double sum = 0, dot = 0;
      relu.dots(dy, y, x, s.runs(), mean, &sum, &dot);
      const double r = 1 / std::sqrt(static_cast<double>(input<T>(launch, 4)[c]) + eps);
      const double a = r * static_cast<double>(input<T>(launch, 5)[c]);
      output<T>(launch, 1)[c] = static_cast<T>(dot * r);
      output<T>(launch, 2)[c] = static_cast<T>(sum);
      relu.backward(dy, y, x, output<T>(launch, 0) + at, s.runs(), static_cast<T>(a), mean,
                    static_cast<T>(-a * r * r * dot / s.count()), static_cast<T>(-a * sum / s.count()));
    });
  });
}

}  // namespace

void register_cpu_batch_norm_relu(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, {"channels", Accepts::contiguous, plan});
  };
  add("batch_norm_relu", plan_by_float(plan_forward<float>, plan_forward<double>));
  add("batch_norm_relu_backward", plan_by_float(plan_backward<float>, plan_backward<double>));
}

}  // namespace starling::kernels
