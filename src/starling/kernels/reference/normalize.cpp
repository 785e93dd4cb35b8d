#include "starling/kernels/reference/normalize.h"

#include <array>
#include <cmath>
#include <vector>

#include "starling/kernels/launch_args.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/strides.h"
#include "starling/ops/def/norm_view.h"

namespace starling::kernels::reference {
namespace {

// Strides of x, of its statistics and of its weight over the elements of x.
using Walk = std::array<Shape, 3>;
using At = std::array<std::int64_t, 3>;

Shape shared_strides(const Shape& shape) {
  Shape strides = contiguous_strides(shape);
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) strides[d] = 0;
  }
  return strides;
}
Walk walk_of(const NormView& v) { return {contiguous_strides(v.x), shared_strides(v.stats), shared_strides(v.weight)}; }

std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  const NormView v = norm_view(request.op, {request.in[0].dtype, request.in[0].shape}, request.attrs);
  const std::size_t operands = request.in.size();
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([v, operands, walk = walk_of(v)](const Launch& launch) {
      const auto stats = static_cast<std::size_t>(v.stats.numel());
      const auto count = static_cast<double>(v.count());
      const T* x = input<T>(launch, 0);
      std::vector<double> mean(stats), var(stats);
      if (v.centred)
        for_each_offset(v.x, walk, [&](const At& at) { mean[static_cast<std::size_t>(at[1])] += x[at[0]] / count; });
      for_each_offset(v.x, walk, [&](const At& at) {
        const auto s = static_cast<std::size_t>(at[1]);
        var[s] += (x[at[0]] - mean[s]) * (x[at[0]] - mean[s]) / count;
      });
      for_each_offset(v.x, walk, [&](const At& at) {
        const auto s = static_cast<std::size_t>(at[1]);
        double y = (x[at[0]] - mean[s]) / std::sqrt(var[s] + v.eps);
        if (operands > 1) y *= input<T>(launch, 1)[at[2]];
        if (operands > 2) y += input<T>(launch, 2)[at[2]];
        output<T>(launch, 0)[at[0]] = static_cast<T>(y);
      });
      for (std::size_t s = 0; s < stats; ++s) {
        if (v.centred) output<T>(launch, 1)[s] = static_cast<T>(mean[s]);
        output<T>(launch, v.centred ? 2 : 1)[s] = static_cast<T>(var[s]);
      }
    });
  });
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& request) {
  const NormView v = norm_view(request.op, {request.in[1].dtype, request.in[1].shape}, request.attrs);
  const std::size_t var_at = v.centred ? 3 : 2;
  const bool weighted = request.in.size() > var_at + 1;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([v, var_at, weighted, walk = walk_of(v)](const Launch& launch) {
      const auto stats = static_cast<std::size_t>(v.stats.numel()),
                 weights = static_cast<std::size_t>(v.weight.numel());
      const auto count = static_cast<double>(v.count());
      const T *dy = input<T>(launch, 0), *x = input<T>(launch, 1), *var = input<T>(launch, var_at);
      std::vector<double> sum(stats), dot(stats), dweight(weights), dbias(weights);
      const auto rstd = [&](std::int64_t s) { return 1 / std::sqrt(var[s] + v.eps); };
      const auto hat = [&](const At& at) {
        return (x[at[0]] - (v.centred ? static_cast<double>(input<T>(launch, 2)[at[1]]) : 0.0)) * rstd(at[1]);
      };
      const auto g = [&](const At& at) {
        return dy[at[0]] * (weighted ? static_cast<double>(input<T>(launch, var_at + 1)[at[2]]) : 1.0);
      };
      for_each_offset(v.x, walk, [&](const At& at) {
        const auto s = static_cast<std::size_t>(at[1]), w = static_cast<std::size_t>(at[2]);
        sum[s] += g(at);
        dot[s] += g(at) * hat(at);
        dweight[w] += dy[at[0]] * hat(at);
        dbias[w] += dy[at[0]];
      });
      for_each_offset(v.x, walk, [&](const At& at) {
        const auto s = static_cast<std::size_t>(at[1]);
        const double less = (v.centred ? sum[s] : 0.0) + hat(at) * dot[s];
        output<T>(launch, 0)[at[0]] = static_cast<T>(rstd(at[1]) * (g(at) - less / count));
      });
      for (std::size_t w = 0; weighted && w < weights; ++w) {
        output<T>(launch, 1)[w] = static_cast<T>(dweight[w]);
        if (v.centred) output<T>(launch, 2)[w] = static_cast<T>(dbias[w]);
      }
    });
  });
}

}  // namespace

void add_norm(KernelTable& table, const std::string& op) {
  table.add(op, DeviceKind::cpu, kernel(Accepts::contiguous, plan_forward));
  table.add(op + "_backward", DeviceKind::cpu, kernel(Accepts::contiguous, plan_backward));
}

}  // namespace starling::kernels::reference
