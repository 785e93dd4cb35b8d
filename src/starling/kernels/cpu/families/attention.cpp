#include "starling/kernels/cpu/attention/attention.h"

#include <algorithm>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/launch_args.h"

namespace starling::kernels {
namespace {

// True if rows are contiguous; queries, keys and values may be slices of a wider matrix.
bool rows_are_dense(std::span<const ArgDesc> args) {
  return std::all_of(args.begin(), args.end(), [](const ArgDesc& a) { return a.strides.back() == 1; });
}

std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32 || !rows_are_dense(request.in.subspan(0, 3))) return nullptr;
  const AttentionShape s = attention_shape(request, 0, 3);
  const int threads = attention_threads(s, request.threads);
  return make_plan(attention_forward_scratch(s, threads), [s, threads](const Launch& l) {
    const void* mask = s.mask == AttentionShape::Mask::none ? nullptr : l.in[3];
    attention_forward(
        {s, input<float>(l, 0), input<float>(l, 1), input<float>(l, 2), mask, output<float>(l, 0), output<float>(l, 1)},
        l.scratch, threads);
  });
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32 || !rows_are_dense(request.in.subspan(0, 1)) ||
      !rows_are_dense(request.in.subspan(2, 3)))
    return nullptr;
  for (const std::size_t i : {1U, 5U, 6U}) {
    if (!request.in[i].contiguous()) return nullptr;
  }
  const AttentionShape s = attention_shape(request, 2, 7);
  const int threads = attention_threads(s, request.threads);
  return make_plan(attention_backward_scratch(s, threads), [s, threads](const Launch& l) {
    const void* mask = s.mask == AttentionShape::Mask::none ? nullptr : l.in[7];
    attention_backward(
        {s, input<float>(l, 0), input<float>(l, 1), input<float>(l, 2), input<float>(l, 3), input<float>(l, 4),
         input<float>(l, 5), input<float>(l, 6), mask, output<float>(l, 0), output<float>(l, 1), output<float>(l, 2)},
        l.scratch, threads);
  });
}

}  // namespace

void register_cpu_attention(KernelTable& table) {
  for (const Accepts accepts : {Accepts::strided, Accepts::contiguous}) {
    table.add("scaled_dot_product_attention", DeviceKind::cpu, {"flash", accepts, plan_forward});
    table.add("scaled_dot_product_attention_backward", DeviceKind::cpu, {"flash", accepts, plan_backward});
  }
}

}  // namespace starling::kernels
