#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/cuda/storage.h"

namespace starling::kernels {
namespace {

// The variance times n / (n - 1); of x only the number of elements counts.
std::unique_ptr<Plan> plan_unbiased(const PlanRequest& request) {
  const ArgDesc &var = request.in[1], &out = request.out[0];
  const std::int64_t channels = out.shape[0];
  const std::int64_t count = channels > 0 ? request.in[0].shape.numel() / channels : 0;
  const double factor = count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1;
  const cuda::Chain chain{.shape = out.shape,
                          .operands = {{var.dtype, var.strides}},
                          .steps = {{"a * p", {0}, out.dtype, {factor}}},
                          .outputs = {1}};
  if (!cuda::has_types(chain)) return nullptr;
  return cuda::plan_stages({cuda::chain_stage(chain, {{cuda::Pointer::Of::in, 1}, {cuda::Pointer::Of::out, 0}})});
}

}  // namespace

void register_cuda_unbiased_variance(KernelTable& table) {
  // Any storage of x: without this a convolution's result in 16 bits would be copied to f32, for its size alone.
  cuda::add_storable("unbiased_variance", {.narrow_in = numbered({0}), .images_in = numbered({0})});
  table.add("unbiased_variance", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_unbiased});
}

}  // namespace starling::kernels
