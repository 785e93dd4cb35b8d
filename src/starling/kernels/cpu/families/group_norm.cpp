#include <algorithm>
#include <cmath>

#include "starling/base/parallel.h"
#include "starling/kernels/by_float.h"
#include "starling/kernels/cpu/norm/normalize.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/launch_args.h"
#include "starling/ops/api/normalize.h"
#include "starling/ops/def/norm_view.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kGrain = 8192;

// x [images, groups, channels of a group, length]
struct Groups {
  std::int64_t images, groups, channels, length;
  double eps;
  explicit Groups(const NormView& v) : images(v.x[0]), groups(v.x[1]), channels(v.x[2]), length(v.x[3]), eps(v.eps) {}
  std::int64_t size() const { return channels * length; }
  std::int64_t all_channels() const { return groups * channels; }

  // Calls f(group of an image, first channel over all images) for each group.
  template <class F>
  void each(F&& f) const {
    parallel_for(images * groups, std::max<std::int64_t>(kGrain / std::max<std::int64_t>(size(), 1), 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t g = begin; g < end; ++g) f(g, g % groups * channels);
                 });
  }
};

NormView view_of(const PlanRequest& request, std::size_t x) {
  return norm_view(request.op, {request.in[x].dtype, request.in[x].shape}, request.attrs);
}

template <class T>
std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  const Groups s(view_of(request, 0));
  const std::size_t operands = request.in.size();
  return make_plan([=](const Launch& launch) {
    const auto fns = normalize_fns<T>();
    const T* weight = operands > 1 ? input<T>(launch, 1) : nullptr;
    const T* bias = operands > 2 ? input<T>(launch, 2) : nullptr;
    s.each([&](std::int64_t g, std::int64_t first) {
      const T* x = input<T>(launch, 0) + g * s.size();
      T* y = output<T>(launch, 0) + g * s.size();
      double mean = 0, m2 = 0;
      fns.moments(x, Runs{1, 0, s.size()}, &mean, &m2);
      const double var = m2 / static_cast<double>(s.size()), r = 1 / std::sqrt(var + s.eps);
      output<T>(launch, 1)[g] = static_cast<T>(mean);
      output<T>(launch, 2)[g] = static_cast<T>(var);
      fns.affine_each(x, y, s.channels, s.length, static_cast<T>(mean), static_cast<T>(r),
                      weight ? weight + first : nullptr, bias ? bias + first : nullptr);
    });
  });
}

// Terms of the gradients of weight and bias per channel and image: Σ dy · (x - mean) · r and Σ dy.
template <class T>
struct Backward {
  const Launch& launch;
  Groups s;
  const T* weight;
  double* dots;  // [images, all channels]
  double* sums;

  void group(std::int64_t g, std::int64_t first) const {
    const auto fns = normalize_fns<T>();
    const T *dy = input<T>(launch, 0) + g * s.size(), *x = input<T>(launch, 1) + g * s.size();
    const T mean = input<T>(launch, 2)[g];
    const double r = 1 / std::sqrt(static_cast<double>(input<T>(launch, 3)[g]) + s.eps);
    const auto count = static_cast<double>(s.size());
    double* dot = dots + g * s.channels;
    double* sum = sums + g * s.channels;
    double all_dot = 0, all_sum = 0;
    fns.dots_each(dy, x, s.channels, s.length, mean, sum, dot);
    for (std::int64_t k = 0; k < s.channels; ++k) {
      const double w = weight ? static_cast<double>(weight[first + k]) : 1.0;
      all_dot += w * dot[k];
      all_sum += w * sum[k];
      dot[k] *= r;
    }
    const T b = static_cast<T>(-r * r * r * all_dot / count), c = static_cast<T>(-r * all_sum / count);
    fns.affine_back_each(dy, x, output<T>(launch, 0) + g * s.size(), s.channels, s.length, static_cast<T>(r),
                         weight ? weight + first : nullptr, mean, b, c);
  }

  void join() const {
    for (std::int64_t c = 0; c < s.all_channels(); ++c) {
      double dot = 0, sum = 0;
      for (std::int64_t n = 0; n < s.images; ++n) {
        dot += dots[n * s.all_channels() + c];
        sum += sums[n * s.all_channels() + c];
      }
      output<T>(launch, 1)[c] = static_cast<T>(dot);
      output<T>(launch, 2)[c] = static_cast<T>(sum);
    }
  }
};

template <class T>
std::unique_ptr<Plan> plan_backward(const PlanRequest& request) {
  const Groups s(view_of(request, 1));
  const bool weighted = request.in.size() > 4;
  const std::int64_t terms = s.images * s.all_channels();
  return make_plan(static_cast<std::size_t>(2 * terms) * sizeof(double), [=](const Launch& launch) {
    auto* dots = static_cast<double*>(launch.scratch);
    const Backward<T> backward{launch, s, weighted ? input<T>(launch, 4) : nullptr, dots, dots + terms};
    s.each([&](std::int64_t g, std::int64_t first) { backward.group(g, first); });
    if (weighted) backward.join();
  });
}

}  // namespace

void register_cpu_group_norm(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, {"groups", Accepts::contiguous, plan});
  };
  for (const char* op : {"group_norm", "instance_norm"})
    add(op, plan_by_float(plan_forward<float>, plan_forward<double>));
  for (const char* op : {"group_norm_backward", "instance_norm_backward"})
    add(op, plan_by_float(plan_backward<float>, plan_backward<double>));
}

}  // namespace starling::kernels
