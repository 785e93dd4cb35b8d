#include "starling/kernels/cpu/loss/cross_entropy.h"

#include "starling/kernels/by_float.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

template <class T>
CrossEntropyArgs<T> args_of(const Launch& launch, std::int64_t rows, std::int64_t cols) {
  CrossEntropyArgs<T> args;
  args.logits = static_cast<const T*>(launch.in[0]);
  args.labels = static_cast<const std::int64_t*>(launch.in[1]);
  args.rows = rows;
  args.cols = cols;
  return args;
}

template <class T>
std::unique_ptr<Plan> plan_cross_entropy(const PlanRequest& request) {
  const bool weighted = request.in.size() == 3;
  return make_plan([weighted, rows = request.in[0].shape[0], cols = request.in[0].shape[1]](const Launch& launch) {
    auto args = args_of<T>(launch, rows, cols);
    args.row_weights = weighted ? static_cast<const T*>(launch.in[2]) : nullptr;
    args.log_sum_exp = static_cast<T*>(launch.out[1]);
    args.row_loss = static_cast<T*>(launch.out[2]);
    *static_cast<T*>(launch.out[0]) = static_cast<T>(cross_entropy(args));
  });
}

template <class T>
std::unique_ptr<Plan> plan_cross_entropy_backward(const PlanRequest& request) {
  const std::size_t weighted = request.in.size() == 5 ? 1 : 0;
  return make_plan([weighted, rows = request.in[0].shape[0], cols = request.in[0].shape[1]](const Launch& launch) {
    auto args = args_of<T>(launch, rows, cols);
    args.row_weights = weighted ? static_cast<const T*>(launch.in[2]) : nullptr;
    args.log_sum_exp = static_cast<T*>(launch.in[2 + weighted]);
    cross_entropy_backward(args, *static_cast<const T*>(launch.in[3 + weighted]), static_cast<T*>(launch.out[0]));
  });
}

}  // namespace

void register_cpu_cross_entropy(KernelTable& table) {
  const auto add = [&](const char* op, auto f32, auto f64) {
    table.add(op, DeviceKind::cpu, {"simd", Accepts::contiguous, plan_by_float(f32, f64)});
  };
  for (const char* op : {"cross_entropy_sum", "cross_entropy_weighted"})
    add(op, plan_cross_entropy<float>, plan_cross_entropy<double>);
  for (const char* op : {"cross_entropy_backward", "cross_entropy_weighted_backward"})
    add(op, plan_cross_entropy_backward<float>, plan_cross_entropy_backward<double>);
}

}  // namespace starling::kernels
