#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/by_float.h"
#include "starling/kernels/cpu/fused/op_blocks.h"
#include "starling/kernels/cpu/reduce/reduce.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

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

}  // namespace

void register_cpu_loss(KernelTable& table) {
  table.add("squared_error", DeviceKind::cpu,
            {"simd", Accepts::contiguous, plan_by_float(plan_squared_error<float>, plan_squared_error<double>)});
}

}  // namespace starling::kernels
