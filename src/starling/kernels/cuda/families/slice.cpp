#include "starling/ops/api/slice.h"

#include "starling/kernels/cuda/stages.h"
#include "starling/ops/def/attrs/slice.h"

namespace starling::kernels {
namespace {

// Every element of the result: one of dy if the slice had it, else 0.
std::unique_ptr<Plan> plan_slice_backward(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::SliceBackwardAttrs>();
  const ArgDesc &in = request.in[0], &out = request.out[0];
  const int axis = normalize_axis(a.axis, out.shape.rank(), "slice_backward");
  const op::SliceRange range = op::slice_range({a.axis, a.begin, a.end, a.step}, out.shape[axis]);
  const std::string type = cuda::moved_type(in.dtype);
  std::string from = fmt::format("at * {}ll", in.strides[axis]);
  for (int d = 0; d < out.shape.rank(); ++d) {
    if (d != axis) from += fmt::format(" + x{} * {}ll", d, in.strides[d]);
  }
  const std::string body = fmt::format(
      "  const long long apart = x{} - {}ll, at = apart / {}ll;\n"
      "  o0[i] = apart % {}ll == 0 && at >= 0 && at < {}ll ? a0[{}] : ({})0;",
      axis, range.begin, a.step, a.step, range.count, from, type);
  return cuda::plan_code({out.shape, {type}, {type}, body, {}});
}

}  // namespace

void register_cuda_slice(KernelTable& table) {
  table.add("slice_backward", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_slice_backward});
}

}  // namespace starling::kernels
