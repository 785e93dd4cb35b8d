#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/fused/op_blocks.h"
#include "starling/kernels/cpu/loss/cross_entropy.h"
#include "starling/kernels/cpu/reduce/reduce.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/registry.h"

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

// Squared error a block at a time on the stack; the sums of blocks are added in order.
template <class T>
struct SquaredError {
  static constexpr std::int64_t kBlock = 2048;
  std::int64_t n;
  BlockFn sub, mul;
  std::int64_t blocks() const { return (n + kBlock - 1) / kBlock; }

  double block(const T* a, const T* b, std::int64_t count) const {
    T difference[kBlock];
    const void* pair[2] = {a, b};
    sub(pair, 0, difference, count, nullptr);
    const void* same[2] = {difference, difference};
    mul(same, 0, difference, count, nullptr);
    T sum = 0;
    reduce_sum(difference, &sum, {.outer = 1, .axis = count, .inner = 1});
    return static_cast<double>(sum);
  }
  void run(const Launch& launch) const {
    auto* sums = static_cast<double*>(launch.scratch);
    const auto *a = static_cast<const T*>(launch.in[0]), *b = static_cast<const T*>(launch.in[1]);
    parallel_for(blocks(), 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        sums[i] = block(a + i * kBlock, b + i * kBlock, std::min(kBlock, n - i * kBlock));
    });
    double sum = 0;
    for (std::int64_t i = 0; i < blocks(); ++i) sum += sums[i];
    *static_cast<T*>(launch.out[0]) = static_cast<T>(sum);
  }
};

template <class T>
std::unique_ptr<Plan> plan_squared_error(const PlanRequest& request) {
  const DType two[2] = {dtype_of<T>(), dtype_of<T>()};
  const SquaredError<T> error{request.in[0].shape.numel(), find_block(find_op("sub"), two).fn,
                              find_block(find_op("mul"), two).fn};
  return make_plan(static_cast<std::size_t>(error.blocks()) * sizeof(double),
                   [error](const Launch& launch) { error.run(launch); });
}

using PlanFn = std::unique_ptr<Plan> (*)(const PlanRequest&);
void add_loss(KernelTable& table, const char* op, PlanFn f32, PlanFn f64) {
  table.add(op, DeviceKind::cpu,
            {"simd", Accepts::contiguous, [=](const PlanRequest& request) -> std::unique_ptr<Plan> {
               if (request.in[0].dtype == DType::f32) return f32(request);
               if (request.in[0].dtype == DType::f64) return f64(request);
               return nullptr;
             }});
}

}  // namespace

void register_cpu_loss(KernelTable& table) {
  add_loss(table, "cross_entropy_sum", plan_cross_entropy<float>, plan_cross_entropy<double>);
  add_loss(table, "cross_entropy_backward", plan_cross_entropy_backward<float>, plan_cross_entropy_backward<double>);
  add_loss(table, "cross_entropy_weighted", plan_cross_entropy<float>, plan_cross_entropy<double>);
  add_loss(table, "cross_entropy_weighted_backward", plan_cross_entropy_backward<float>,
           plan_cross_entropy_backward<double>);
  add_loss(table, "squared_error", plan_squared_error<float>, plan_squared_error<double>);
}

}  // namespace starling::kernels
