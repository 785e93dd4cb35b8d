#include "starling/kernels/cuda/stages.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

// Copy of a view, for a view op that could not return one or whose user needs separate memory.
std::unique_ptr<Plan> plan_view(const PlanRequest& request) {
  const ArgDesc& in = request.in[0];
  const auto view = request.op.view({in.shape, in.strides, request.attrs});
  const Shape& shape = view ? view->shape : in.shape;
  cuda::Chain chain =
      cuda::move_chain(in.dtype, shape, view ? view->strides : in.strides, {in.dtype, contiguous_strides(shape)});
  chain.operands[0].first = view ? view->offset : 0;
  return cuda::plan_chain(chain);
}

}  // namespace

void register_cuda_view_ops(KernelTable& table) {
  for (const auto* op : op_registry().sorted()) {
    if (op->view) table.add(op->name, DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_view});
  }
}

}  // namespace starling::kernels
