#include "starling/ops/api/embedding.h"

#include "starling/kernels/cuda/device/embedding.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/ops/def/attrs/embedding.h"

namespace starling::kernels {
namespace {

// Rows by index; device code cannot throw, so an index out of range gives NaN (all bits set).
std::unique_ptr<Plan> plan_embedding(const PlanRequest& request) {
  const Shape& table = request.in[1].shape;
  const std::int64_t rows = table[0], width = rows > 0 ? table.numel() / rows : 1;
  const std::string type = cuda::moved_type(request.in[1].dtype);
  const std::string body = fmt::format(
      "  const long long at = a0[i / {0}ll];\n  o0[i] = at >= 0 && at < {1}ll ? a1[at * {0}ll + i % {0}ll] : ({2})-1;",
      std::max<std::int64_t>(width, 1), rows, type);
  return cuda::plan_code({request.out[0].shape, {"long long", type}, {type}, body, {}});
}

std::unique_ptr<Plan> plan_embedding_backward(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  const auto& a = request.attrs.as<op::EmbeddingBackwardAttrs>();
  const Shape& out = request.out[0].shape;
  if (out.numel() == 0) return make_plan([](const Launch&) {});
  const std::int64_t width = out.numel() / out[0];
  if (out[0] > (1 << 30) || width > (1 << 23) || request.in[1].shape.numel() > (1 << 30)) return nullptr;
  const device::EmbeddingSum sum{a.rows, request.in[1].shape.numel(), a.padding, static_cast<int>(width)};
  check_cuda(device::load_embedding_sum(), "loading a kernel");
  return make_plan(device::embedding_sum_scratch(sum), [sum](const Launch& launch) {
    check_cuda(device::launch_embedding_sum(sum, cuda::input<float>(launch, 0), cuda::input<long long>(launch, 1),
                                            cuda::output<float>(launch, 0), launch.scratch, cuda::stream_of(launch)),
               "launching a kernel");
  });
}

}  // namespace

void register_cuda_embedding(KernelTable& table) {
  table.add("embedding", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_embedding});
  table.add("embedding_backward", DeviceKind::cuda, {"rows", Accepts::contiguous, plan_embedding_backward});
}

}  // namespace starling::kernels
