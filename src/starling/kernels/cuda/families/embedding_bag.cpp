#include "starling/kernels/cuda/bag_code.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

// An index out of range gives NaN: device code cannot throw.
std::unique_ptr<Plan> plan_bag(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::EmbeddingBagAttrs>();
  auto code = cuda::BagCode::of(request, {a.mean, a.padding});
  if (!code) return nullptr;
  const auto width = row_size(request.in[0].shape);
  code->names.number("WIDTH", width).number("ROWS", request.in[0].shape[0]);
  code->names.expression("ROW", "index").expression("OUTSIDE", "(index < 0 || index >= ROWS)");
  return code->plan({code->bags.operands.bags, width}, {code->in[0]}, cuda::kAddUp);
}

constexpr const char* kMax = R"(
  T best = 0;
  long long chosen = -1;
  for (long long e = BEGIN((long long)x0), end = END((long long)x0); e < end; ++e) {
    const long long index = a1[e];
    if (index == PADDING) continue;
    const T x = index < 0 || index >= ROWS ? (T)__longlong_as_double(-1) : a0[index * WIDTH + x1];
    if (chosen >= 0 && !(x > best)) continue;
    best = x;
    chosen = e;
  }
  o0[i] = best;
  o1[i] = chosen;
)";

std::unique_ptr<Plan> plan_max(const PlanRequest& request) {
  auto code = cuda::BagCode::of(request, {false, request.attrs.as<op::EmbeddingAttrs>().padding});
  if (!code) return nullptr;
  const auto width = row_size(request.in[0].shape);
  code->names.number("WIDTH", width).number("ROWS", request.in[0].shape[0]);
  return code->plan({code->bags.operands.bags, width}, {code->in[0], "long long"}, kMax);
}

}  // namespace

void register_cuda_embedding_bag(KernelTable& table) {
  table.add("embedding_bag", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_bag});
  table.add("embedding_bag_max", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_max});
}

}  // namespace starling::kernels
