#include <cmath>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

// Runs row(in, out, n) with operand rows as functions of the index in a row.
template <class T>
struct Rows {
  const Launch& launch;
  std::int64_t begin;
  double in(std::size_t operand, std::int64_t i) const {
    return static_cast<double>(static_cast<const T*>(launch.in[operand])[begin + i]);
  }
  void out(std::int64_t i, double value) const { static_cast<T*>(launch.out[0])[begin + i] = static_cast<T>(value); }
};

template <class RowFn>
std::unique_ptr<Plan> plan_rows(const PlanRequest& request, RowFn row) {
  const auto cols = request.in[0].shape.back(), n = request.in[0].shape.numel();
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      for (std::int64_t begin = 0; begin < n; begin += cols) row(Rows<T>{launch, begin}, cols);
    });
  });
}

template <class R>
double log_sum_exp(const R& row, std::int64_t cols) {
  double largest = row.in(0, 0), sum = 0;
  for (std::int64_t i = 1; i < cols; ++i) largest = std::max(largest, row.in(0, i));
  for (std::int64_t i = 0; i < cols; ++i) sum += std::exp(row.in(0, i) - largest);
  return largest + std::log(sum);
}

std::unique_ptr<Plan> plan_softmax(const PlanRequest& request) {
  return plan_rows(request, [](const auto& row, std::int64_t cols) {
    const double lse = log_sum_exp(row, cols);
    for (std::int64_t i = 0; i < cols; ++i) row.out(i, std::exp(row.in(0, i) - lse));
  });
}

std::unique_ptr<Plan> plan_log_softmax(const PlanRequest& request) {
  return plan_rows(request, [](const auto& row, std::int64_t cols) {
    const double lse = log_sum_exp(row, cols);
    for (std::int64_t i = 0; i < cols; ++i) row.out(i, row.in(0, i) - lse);
  });
}

std::unique_ptr<Plan> plan_softmax_backward(const PlanRequest& request) {
  return plan_rows(request, [](const auto& row, std::int64_t cols) {
    double dot = 0;
    for (std::int64_t i = 0; i < cols; ++i) dot += row.in(0, i) * row.in(1, i);
    for (std::int64_t i = 0; i < cols; ++i) row.out(i, row.in(1, i) * (row.in(0, i) - dot));
  });
}

std::unique_ptr<Plan> plan_log_softmax_backward(const PlanRequest& request) {
  return plan_rows(request, [](const auto& row, std::int64_t cols) {
    double sum = 0;
    for (std::int64_t i = 0; i < cols; ++i) sum += row.in(0, i);
    for (std::int64_t i = 0; i < cols; ++i) row.out(i, row.in(0, i) - std::exp(row.in(1, i)) * sum);
  });
}

}  // namespace

void register_reference_softmax(KernelTable& table) {
  table.add("softmax", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_softmax));
  table.add("log_softmax", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_log_softmax));
  table.add("softmax_backward", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_softmax_backward));
  table.add("log_softmax_backward", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_log_softmax_backward));
}

}  // namespace starling::kernels
