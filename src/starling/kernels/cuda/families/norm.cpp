#include <cmath>

#include "starling/kernels/cuda/fold_stages.h"

namespace starling::kernels {
namespace {

using cuda::Fold;

bool is_plain_float(const PlanRequest& request) {
  return request.in[0].dtype == DType::f32 || request.in[0].dtype == DType::f64;
}

std::unique_ptr<Plan> plan_logsumexp(const PlanRequest& request) {
  if (!is_plain_float(request)) return nullptr;
  cuda::FoldStages folds(request.in[0], request.attrs.as<op::ReduceAttrs>().axes);
  const auto largest = folds.fold(Fold::max, "a");
  const auto total = folds.fold(Fold::sum, "exp(a - (b - b == T(0) ? b : T(0)))", {largest});
  return folds.plan("(a - a == T(0) ? a : T(0)) + log(b)", {largest, total});
}

std::unique_ptr<Plan> plan_norm(const PlanRequest& request) {
  if (!is_plain_float(request)) return nullptr;
  const auto& attrs = request.attrs.as<op::NormAttrs>();
  cuda::FoldStages folds(request.in[0], attrs.axes);
  if (attrs.p == 1) return folds.plan("a", {folds.fold(Fold::sum, "fabs(a)")});
  if (attrs.p == 2) return folds.plan("sqrt(a)", {folds.fold(Fold::sum, "a * a")});
  const auto most = folds.fold(Fold::max, "fabs(a)");
  if (std::isinf(attrs.p)) return folds.plan("a > T(0) || a != a ? a : T(0)", {most});
  const auto total = folds.fold(Fold::sum, "b > T(0) ? pow(fabs(a) / b, p) : T(0)", {most}, attrs.p);
  return folds.plan("a > T(0) && a - a == T(0) ? a * pow(b, T(1) / p) : a > T(0) || a != a ? a : T(0)", {most, total},
                    attrs.p);
}

}  // namespace

void register_cuda_norm(KernelTable& table) {
  table.add("logsumexp", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_logsumexp});
  table.add("norm", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_norm});
}

}  // namespace starling::kernels
