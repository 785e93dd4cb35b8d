#include "starling/kernels/cuda/stages.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

// Code for Σ coordinate · stride.
std::string place_of(const Shape& strides, std::int64_t offset) {
  std::string text = fmt::format("{}ll", offset);
  for (int d = 0; d < strides.rank(); ++d) {
    if (strides[d] != 0) text += fmt::format(" + x{} * {}ll", d, strides[d]);
  }
  return text;
}

// Copy of a view, for a view op that could not return one or whose user needs separate memory.
std::unique_ptr<Plan> plan_view(const PlanRequest& request) {
  const ArgDesc& in = request.in[0];
  const auto view = request.op.view({in.shape, in.strides, request.attrs});
  const std::string type = cuda::moved_type(in.dtype);
  const Shape& strides = view ? view->strides : in.strides;
  const cuda::ElementCode code{view ? view->shape : in.shape,
                               {type},
                               {type},
                               fmt::format("  o0[i] = a0[{}];", place_of(strides, view ? view->offset : 0)),
                               {}};
  return cuda::plan_code(code);
}

}  // namespace

void register_cuda_view_ops(KernelTable& table) {
  for (const auto* op : op_registry().sorted()) {
    if (op->view) table.add(op->name, DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_view});
  }
}

}  // namespace starling::kernels
