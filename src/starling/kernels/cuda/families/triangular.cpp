#include "starling/ops/api/triangular.h"

#include "starling/kernels/cuda/stages.h"
#include "starling/ops/def/attrs/triangular.h"

namespace starling::kernels {
namespace {

auto planner(bool lower) {
  return [lower](const PlanRequest& request) {
    const auto diagonal = request.attrs.as<op::TriangularAttrs>().diagonal;
    const Shape& shape = request.in[0].shape;
    const std::string type = cuda::moved_type(request.in[0].dtype);
    const std::string body = fmt::format("  o0[i] = (long long)x{} - x{} {} {}ll ? a0[i] : ({})0;", shape.rank() - 1,
                                         shape.rank() - 2, lower ? "<=" : ">=", diagonal, type);
    return cuda::plan_code({shape, {type}, {type}, body, {}});
  };
}

}  // namespace

void register_cuda_triangular(KernelTable& table) {
  table.add("tril", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, planner(true)});
  table.add("triu", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, planner(false)});
}

}  // namespace starling::kernels
