#include <algorithm>
#include <cmath>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

std::int64_t checked_label(const void* labels, std::int64_t row, std::int64_t classes) {
  const auto label = static_cast<const std::int64_t*>(labels)[row];
  check(label >= 0 && label < classes, "[cross_entropy] expected labels in [0, {}), got {} in row {}", classes, label,
        row);
  return label;
}

// The largest logit and the logarithm of Σ exp(x - largest): apart, since their sum rounds the second away.
struct LogSumExp {
  double largest, rest;
};
template <class T>
LogSumExp log_sum_exp(const T* x, std::int64_t classes) {
  double largest = static_cast<double>(x[0]), sum = 0;
  for (std::int64_t i = 1; i < classes; ++i) largest = std::max(largest, static_cast<double>(x[i]));
  for (std::int64_t i = 0; i < classes; ++i) sum += std::exp(static_cast<double>(x[i]) - largest);
  return {largest, std::log(sum)};
}

// Cross-entropy; a third operand holds row weights.
std::unique_ptr<Plan> plan_cross_entropy(const PlanRequest& request) {
  const auto rows = request.in[0].shape[0], classes = request.in[0].shape[1];
  const bool weighted = request.in.size() == 3;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const auto* logits = static_cast<const T*>(launch.in[0]);
      double sum = 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto label = checked_label(launch.in[1], r, classes);
        const LogSumExp lse = log_sum_exp(logits + r * classes, classes);
        const double weight = weighted ? static_cast<double>(static_cast<const T*>(launch.in[2])[r]) : 1.0;
        const double at_label = static_cast<double>(logits[r * classes + label]);
        const double loss = weight == 0 ? 0 : weight * (lse.largest - at_label + lse.rest);
        sum += loss;
        static_cast<T*>(launch.out[1])[r] = static_cast<T>(lse.largest + lse.rest);
        static_cast<T*>(launch.out[2])[r] = static_cast<T>(loss);
      }
      *static_cast<T*>(launch.out[0]) = static_cast<T>(sum);
    });
  });
}

std::unique_ptr<Plan> plan_cross_entropy_backward(const PlanRequest& request) {
  const auto rows = request.in[0].shape[0], classes = request.in[0].shape[1];
  const std::size_t weighted = request.in.size() == 5 ? 1 : 0;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const auto* logits = static_cast<const T*>(launch.in[0]);
      const double factor = static_cast<double>(*static_cast<const T*>(launch.in[3 + weighted]));
      for (std::int64_t r = 0; r < rows; ++r) {
        const double scale = factor * (weighted ? static_cast<double>(static_cast<const T*>(launch.in[2])[r]) : 1.0);
        const auto label = checked_label(launch.in[1], r, classes);
        const double lse = static_cast<double>(static_cast<const T*>(launch.in[2 + weighted])[r]);
        for (std::int64_t i = 0; i < classes; ++i) {
          const double p = std::exp(static_cast<double>(logits[r * classes + i]) - lse);
          static_cast<T*>(launch.out[0])[r * classes + i] = static_cast<T>((p - (i == label ? 1.0 : 0.0)) * scale);
        }
      }
    });
  });
}

}  // namespace

void register_reference_cross_entropy(KernelTable& table) {
  table.add("cross_entropy_sum", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_cross_entropy));
  table.add("cross_entropy_backward", DeviceKind::cpu,
            reference::kernel(Accepts::contiguous, plan_cross_entropy_backward));
  table.add("cross_entropy_weighted", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_cross_entropy));
  table.add("cross_entropy_weighted_backward", DeviceKind::cpu,
            reference::kernel(Accepts::contiguous, plan_cross_entropy_backward));
}

}  // namespace starling::kernels
