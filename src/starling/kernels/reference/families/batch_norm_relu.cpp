#include <cmath>
#include <vector>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/launch_args.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/def/norm_view.h"

namespace starling::kernels {
namespace {

// Calls f(element, channel) for x [images, channels, length].
template <class F>
void for_elements(const Shape& x, F&& f) {
  for (std::int64_t i = 0; i < x.numel(); ++i) f(i, static_cast<std::size_t>(i / x[2] % x[1]));
}

std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  const NormView v = norm_view(request.op, {request.in[0].dtype, request.in[0].shape}, request.attrs);
  const bool residual = request.in.size() > 3;
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([v, residual](const Launch& launch) {
      const T* x = input<T>(launch, 0);
      const auto count = static_cast<double>(v.count());
      std::vector<double> mean(static_cast<std::size_t>(v.x[1])), var(mean.size());
      for_elements(v.x, [&](std::int64_t i, std::size_t c) { mean[c] += x[i] / count; });
      for_elements(v.x, [&](std::int64_t i, std::size_t c) { var[c] += (x[i] - mean[c]) * (x[i] - mean[c]) / count; });
      for_elements(v.x, [&](std::int64_t i, std::size_t c) {
        double y = (x[i] - mean[c]) / std::sqrt(var[c] + v.eps) * input<T>(launch, 1)[c] + input<T>(launch, 2)[c];
        if (residual) y += input<T>(launch, 3)[i];
        output<T>(launch, 0)[i] = static_cast<T>(y < 0 ? 0.0 : y);
      });
      for (std::size_t c = 0; c < mean.size(); ++c) {
        output<T>(launch, 1)[c] = static_cast<T>(mean[c]);
        output<T>(launch, 2)[c] = static_cast<T>(var[c]);
      }
    });
  });
}

// Operands dy, y, x, mean, var and weight; or, where y is made `again`, dy, x, mean, var, weight and bias.
std::unique_ptr<Plan> plan_slopes(const PlanRequest& request, bool again) {
  const std::size_t at = again ? 1 : 2;
  const NormView v = norm_view(request.op, {request.in[at].dtype, request.in[at].shape}, request.attrs);
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([v, at, again](const Launch& launch) {
      const T *dy = input<T>(launch, 0), *y = input<T>(launch, 1), *x = input<T>(launch, at);
      const T *mean = input<T>(launch, at + 1), *var = input<T>(launch, at + 2), *weight = input<T>(launch, at + 3);
      const auto count = static_cast<double>(v.count());
      const auto channels = static_cast<std::size_t>(v.x[1]);
      std::vector<double> sum(channels), dot(channels);
      const auto r = [&](std::size_t c) { return 1 / std::sqrt(var[c] + v.eps); };
      const auto h = [&](std::int64_t i, std::size_t c) { return (x[i] - mean[c]) * r(c); };
      const auto positive = [&](std::int64_t i, std::size_t c) {
        return again ? h(i, c) * weight[c] + input<T>(launch, 5)[c] > 0 : y[i] > 0;
      };
      const auto g = [&](std::int64_t i, std::size_t c) { return positive(i, c) ? static_cast<double>(dy[i]) : 0.0; };
      for_elements(v.x, [&](std::int64_t i, std::size_t c) {
        sum[c] += g(i, c);
        dot[c] += g(i, c) * h(i, c);
      });
      for_elements(v.x, [&](std::int64_t i, std::size_t c) {
        const double inner = g(i, c) - sum[c] / count - h(i, c) * dot[c] / count;
        output<T>(launch, 0)[i] = static_cast<T>(weight[c] * r(c) * inner);
      });
      for (std::size_t c = 0; c < channels; ++c) {
        output<T>(launch, 1)[c] = static_cast<T>(dot[c]);
        output<T>(launch, 2)[c] = static_cast<T>(sum[c]);
      }
    });
  });
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& request) { return plan_slopes(request, false); }
std::unique_ptr<Plan> plan_positive(const PlanRequest& request) { return plan_slopes(request, true); }

}  // namespace

void register_reference_batch_norm_relu(KernelTable& table) {
  table.add("batch_norm_relu", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_forward));
  table.add("batch_norm_relu_backward", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_backward));
  table.add("batch_norm_positive_backward", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_positive));
}

}  // namespace starling::kernels
