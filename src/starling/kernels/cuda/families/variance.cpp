#include "starling/ops/api/variance.h"

#include "starling/kernels/cuda/fold_stages.h"
#include "starling/ops/def/attrs/variance.h"

namespace starling::kernels {
namespace {

auto planner(bool root) {
  return [root](const PlanRequest& request) -> std::unique_ptr<Plan> {
    if (request.in[0].dtype != DType::f32 && request.in[0].dtype != DType::f64) return nullptr;
    const auto& attrs = request.attrs.as<op::VarAttrs>();
    cuda::FoldStages folds(request.in[0], attrs.axes);
    const auto mean = folds.fold(cuda::Fold::mean, "a");
    const auto squares = folds.fold(cuda::Fold::sum, "(a - b) * (a - b)", {mean});
    const auto count = static_cast<double>(std::max<std::int64_t>(folds.terms() - attrs.correction, 0));
    return folds.plan(root ? "sqrt(a / p)" : "a / p", {squares}, count);
  };
}

}  // namespace

void register_cuda_variance(KernelTable& table) {
  table.add("var", DeviceKind::cuda, {"nvrtc", Accepts::strided, planner(false)});
  table.add("std", DeviceKind::cuda, {"nvrtc", Accepts::strided, planner(true)});
}

}  // namespace starling::kernels
