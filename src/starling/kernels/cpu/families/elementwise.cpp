#include "starling/base/parallel.h"
#include "starling/kernels/cpu/fused/op_blocks.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/strides.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

// Least elements that are worth a second thread.
constexpr std::int64_t kGrain = 16384;

OpBlock block_for(const PlanRequest& request) {
  SmallVector<DType, 4> dtypes;
  for (const auto& arg : request.in) dtypes.push_back(arg.dtype);
  return find_block(request.op, {dtypes.data(), dtypes.size()});
}

// Loops over operands first, the dense output last.
Loops loops_of(const PlanRequest& request) {
  SmallVector<Shape, 4> strides;
  for (const auto& arg : request.in) strides.push_back(broadcast_strides(arg.shape, arg.strides, request.out[0].shape));
  strides.push_back(request.out[0].strides);
  return collapse(request.out[0].shape, {strides.data(), strides.size()});
}

std::unique_ptr<Plan> plan_flat(const OpBlock& block, const Numbers& params, unsigned scalars, std::int64_t n) {
  const BlockFn fn = block.fn;
  if (n <= kGrain) {
    return make_plan([=](const Launch& launch) { fn(launch.in, scalars, launch.out[0], n, params.data()); });
  }
  return make_plan([=](const Launch& launch) {
    run_block(*block.entry, block.lane, launch.in, scalars, launch.out[0], n, params.data());
  });
}

// Lines along the last dimension, one call each; loops over the other dimensions.
struct Lines {
  BlockFn fn;
  Numbers params;
  Loops loops;
  std::array<std::int64_t, 4> bytes{};  // element size of each operand, output last
  unsigned scalars = 0;
  std::int64_t length = 1;
  std::int64_t count = 1;

  void run(const Launch& launch, std::int64_t begin, std::int64_t end) const {
    const int outer = loops.shape.rank() - 1, last = loops.operands - 1;
    std::array<std::int64_t, kMaxRank> index{};
    std::array<std::int64_t, 4> at{};
    std::int64_t rest = begin;
    for (int d = outer - 1; d >= 0; --d) {
      const auto axis = static_cast<std::size_t>(d);
      index[axis] = rest % loops.shape[d];
      rest /= loops.shape[d];
      for (std::size_t k = 0; k < 4; ++k) at[k] += static_cast<int>(k) <= last ? index[axis] * loops.strides[k][d] : 0;
    }
    for (std::int64_t line = begin; line < end; ++line) {
      const void* in[3] = {};
      for (std::size_t k = 0; k < static_cast<std::size_t>(last); ++k)
        in[k] = static_cast<std::byte*>(launch.in[k]) + at[k] * bytes[k];
      const auto out = static_cast<std::size_t>(last);
      fn(in, scalars, static_cast<std::byte*>(launch.out[0]) + at[out] * bytes[out], length, params.data());
      for (int d = outer - 1; d >= 0; --d) {
        const auto axis = static_cast<std::size_t>(d);
        for (std::size_t k = 0; k <= out; ++k) at[k] += loops.strides[k][d];
        if (++index[axis] < loops.shape[d]) break;
        for (std::size_t k = 0; k <= out; ++k) at[k] -= loops.strides[k][d] * loops.shape[d];
        index[axis] = 0;
      }
    }
  }
};

std::unique_ptr<Plan> plan_elementwise(const PlanRequest& request) {
  const OpBlock block = block_for(request);
  if (!block) return nullptr;
  const Loops loops = loops_of(request);
  const int rank = loops.shape.rank();
  const std::size_t operands = request.in.size();
  unsigned scalars = 0;
  for (std::size_t k = 0; k < operands; ++k) {
    const std::int64_t step = rank > 0 ? loops.strides[k][rank - 1] : 0;
    if (step > 1 || step < 0) return nullptr;  // a dense copy and the vector function are faster
    if (step == 0) scalars |= 1u << k;
  }
  const Numbers params = numbers_of(request.attrs);
  if (rank == 0) return plan_flat(block, params, 0, 1);
  if (rank == 1) return plan_flat(block, params, scalars, loops.shape[0]);
  Lines lines{block.fn, params, loops};
  lines.scalars = scalars;
  lines.length = loops.shape[rank - 1];
  lines.count = loops.shape.numel() / std::max<std::int64_t>(lines.length, 1);
  for (std::size_t k = 0; k < operands; ++k) lines.bytes[k] = static_cast<std::int64_t>(size_of(request.in[k].dtype));
  lines.bytes[operands] = static_cast<std::int64_t>(size_of(request.out[0].dtype));
  return make_plan([lines](const Launch& launch) {
    if (lines.length == 0) return;
    parallel_for(lines.count, kGrain / lines.length + 1,
                 [&](std::int64_t begin, std::int64_t end) { lines.run(launch, begin, end); });
  });
}

}  // namespace

void register_cpu_elementwise(KernelTable& table) {
  for (const auto* op : op_registry().sorted()) {
    if (!op->elementwise()) continue;
    table.add(op->name, DeviceKind::cpu, {"simd", Accepts::strided, plan_elementwise});
    table.add(op->name, DeviceKind::cpu, {"simd", Accepts::contiguous, plan_elementwise});
  }
}

}  // namespace starling::kernels
