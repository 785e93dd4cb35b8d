#include "starling/ops/api/shape_ops.h"

#include "starling/kernels/cuda/stages.h"
#include "starling/ops/def/attrs/shape_ops.h"

namespace starling::kernels {
namespace {

using cuda::Pointer;

// Copy of operand k into the result, from `first` along strides.
cuda::Stage copy_into(const ArgDesc& in, std::size_t k, const Shape& strides, std::int64_t first) {
  return cuda::chain_stage(cuda::move_chain(in.dtype, in.shape, in.strides, {in.dtype, strides, first}),
                           {{Pointer::Of::in, k}, {Pointer::Of::out, 0}});
}

std::unique_ptr<Plan> plan_concat(const PlanRequest& request) {
  const ArgDesc& out = request.out[0];
  const int axis = normalize_axis(request.attrs.as<op::AxisAttrs>().axis, out.shape.rank(), "concat");
  std::vector<cuda::Stage> stages;
  std::int64_t at = 0;
  for (std::size_t k = 0; k < request.in.size(); ++k) {
    stages.push_back(copy_into(request.in[k], k, out.strides, at * out.strides[axis]));
    at += request.in[k].shape[axis];
  }
  return cuda::plan_stages(std::move(stages));
}

std::unique_ptr<Plan> plan_stack(const PlanRequest& request) {
  const ArgDesc& out = request.out[0];
  const int axis = normalize_axis(request.attrs.as<op::AxisAttrs>().axis, out.shape.rank(), "stack");
  Shape strides = out.strides;
  strides.erase(axis);
  std::vector<cuda::Stage> stages;
  for (std::size_t k = 0; k < request.in.size(); ++k)
    stages.push_back(copy_into(request.in[k], k, strides, static_cast<std::int64_t>(k) * out.strides[axis]));
  return cuda::plan_stages(std::move(stages));
}

}  // namespace

void register_cuda_shape_ops(KernelTable& table) {
  table.add("concat", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_concat});
  table.add("stack", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_stack});
}

}  // namespace starling::kernels
