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
// Most pieces that rows are split into, each with its own sums of the gradients of weight and bias.
constexpr std::int64_t kPieces = 16;

struct Rows {
  std::int64_t rows, length;
  double eps;
  bool centred;
  explicit Rows(const NormView& v) : rows(v.x[0]), length(v.x[1]), eps(v.eps), centred(v.centred) {}
  std::int64_t pieces() const { return std::clamp<std::int64_t>(rows * length / (4 * kGrain), 1, kPieces); }
};

NormView view_of(const PlanRequest& request, std::size_t x) {
  return norm_view(request.op, {request.in[x].dtype, request.in[x].shape}, request.attrs);
}

template <class T>
std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  const Rows s(view_of(request, 0));
  const std::size_t operands = request.in.size();
  return make_plan([=](const Launch& launch) {
    const auto fns = normalize_fns<T>();
    const T* x = input<T>(launch, 0);
    const T* weight = operands > 1 ? input<T>(launch, 1) : nullptr;
    const T* bias = operands > 2 ? input<T>(launch, 2) : nullptr;
    const double n = static_cast<double>(s.length);
    parallel_for(s.rows, std::max<std::int64_t>(kGrain / std::max<std::int64_t>(s.length, 1), 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t r = begin; r < end; ++r) {
                     const T* row = x + r * s.length;
                     double mean = 0, m2 = 0, unused = 0;
                     if (s.centred)
                       fns.moments(row, Runs{1, 0, s.length}, &mean, &m2);
                     else
                       fns.dots(row, row, Runs{1, 0, s.length}, T{0}, &unused, &m2);
                     const double scale = 1 / std::sqrt(m2 / n + s.eps);
                     if (s.centred) output<T>(launch, 1)[r] = static_cast<T>(mean);
                     output<T>(launch, s.centred ? 2 : 1)[r] = static_cast<T>(m2 / n);
                     fns.row(row, output<T>(launch, 0) + r * s.length, s.length, static_cast<T>(mean),
                             static_cast<T>(scale), weight, bias);
                   }
                 });
  });
}

template <class T>
struct Backward {
  const Launch& launch;
  Rows s;
  const T* weight;

  // Rows [begin, end); their terms of the gradients of weight and bias go to `sums` ([2, length], or [length] for RMS).
  void rows(std::int64_t begin, std::int64_t end, T* sums) const {
    const auto fns = normalize_fns<T>();
    const T *dy = input<T>(launch, 0), *x = input<T>(launch, 1), *var = input<T>(launch, s.centred ? 3 : 2);
    T* shift_sum = s.centred && weight ? sums + s.length : nullptr;
    if (weight) std::fill_n(sums, (s.centred ? 2 : 1) * s.length, T{0});
    const double n = static_cast<double>(s.length);
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t at = r * s.length;
      const T mean = s.centred ? input<T>(launch, 2)[r] : T{0};
      const double scale = 1 / std::sqrt(static_cast<double>(var[r]) + s.eps);
      double sum = 0, dot = 0;
      fns.row_dots(dy + at, x + at, weight, s.length, mean, &sum, &dot);
      if (!s.centred) sum = 0;
      fns.row_back(dy + at, x + at, weight, output<T>(launch, 0) + at, s.length, static_cast<T>(scale), mean,
                   static_cast<T>(-scale * scale * scale * dot / n), static_cast<T>(-scale * sum / n), sums, shift_sum);
    }
  }

  void join(const T* sums, std::int64_t pieces) const {
    const std::int64_t width = (s.centred ? 2 : 1) * s.length;
    for (std::int64_t i = 0; i < width; ++i) {
      double total = 0;
      for (std::int64_t p = 0; p < pieces; ++p) total += static_cast<double>(sums[p * width + i]);
      output<T>(launch, i < s.length ? 1 : 2)[i % s.length] = static_cast<T>(total);
    }
  }
};

template <class T>
std::unique_ptr<Plan> plan_backward(const PlanRequest& request) {
  const Rows s(view_of(request, 1));
  const std::size_t weight_at = s.centred ? 4 : 3;
  const bool weighted = request.in.size() > weight_at;
  const std::int64_t pieces = s.pieces(), width = weighted ? (s.centred ? 2 : 1) * s.length : 0;
  return make_plan(static_cast<std::size_t>(pieces * width) * sizeof(T), [=](const Launch& launch) {
    const Backward<T> backward{launch, s, weighted ? input<T>(launch, weight_at) : nullptr};
    auto* sums = static_cast<T*>(launch.scratch);
    parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p)
        backward.rows(s.rows * p / pieces, s.rows * (p + 1) / pieces, weighted ? sums + p * width : nullptr);
    });
    if (weighted) backward.join(sums, pieces);
  });
}

}  // namespace

void register_cpu_layer_norm(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, {"rows", Accepts::contiguous, plan});
  };
  for (const char* op : {"layer_norm", "rms_norm"}) add(op, plan_by_float(plan_forward<float>, plan_forward<double>));
  for (const char* op : {"layer_norm_backward", "rms_norm_backward"})
    add(op, plan_by_float(plan_backward<float>, plan_backward<double>));
}

}  // namespace starling::kernels
