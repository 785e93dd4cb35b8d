#include "starling/kernels/cuda/stages.h"

namespace starling::kernels {
namespace {

// Σ a · b along the last axis.
std::unique_ptr<Plan> plan_dot(const PlanRequest& request) {
  const ArgDesc& a = request.in[0];
  cuda::ChainFold fold{{a.shape,
                        {{a.dtype, a.strides}, {request.in[1].dtype, request.in[1].strides}},
                        {{"a * b", {0, 1}, a.dtype, {}}},
                        {2}},
                       {a.shape.rank() - 1},
                       cuda::Fold::sum};
  if (!cuda::has_types(fold.chain)) return nullptr;
  return cuda::plan_stages({cuda::fold_stage(fold, cuda::plain_pointers(2, 1))});
}

std::unique_ptr<Plan> plan_outer(const PlanRequest& request) {
  const DType dtype = request.in[0].dtype;
  return cuda::plan_chain({request.out[0].shape,
                           {{dtype, {request.in[0].strides[0], 0}}, {dtype, {0, request.in[1].strides[0]}}},
                           {{"a * b", {0, 1}, dtype, {}}},
                           {2}});
}

}  // namespace

void register_cuda_dot(KernelTable& table) {
  table.add("dot", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_dot});
  table.add("outer", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_outer});
}

}  // namespace starling::kernels
