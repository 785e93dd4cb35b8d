#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/ops/def/attrs/margin_attrs.h"

namespace starling::kernels {
namespace {

// One thread per sample walks its columns.
constexpr const char* kCosine = R"(
  double aa = EPS, bb = EPS, ab = 0;
  for (long long j = i * COLUMNS; j < (i + 1) * COLUMNS; ++j) {
    const double a = a0[j], b = a1[j];
    aa += a * a;
    bb += b * b;
    ab += a * b;
  }
  const double cosine = ab / sqrt(aa * bb), over = cosine - MARGIN;
  o0[i] = a2[i] > 0 ? 1 - cosine : over > 0 || over != over ? over : 0;
)";

constexpr const char* kTriplet = R"(
  double near = 0, far = 0;
  for (long long j = i * COLUMNS; j < (i + 1) * COLUMNS; ++j) {
    const double n = (double)a0[j] - (double)a1[j] + EPS, f = (double)a0[j] - (double)a2[j] + EPS;
    near += n * n;
    far += f * f;
  }
  const double over = sqrt(near) - sqrt(far) + MARGIN;
  o0[i] = over > 0 || over != over ? over : 0;
)";

std::unique_ptr<Plan> plan_by(const PlanRequest& request, double margin, double eps, const char* body) {
  if (!cuda::is_plain_float(request.in[0].dtype)) return nullptr;
  cuda::CodeNames names;
  names.number("COLUMNS", request.in[0].shape[1]).real("MARGIN", margin).real("EPS", eps);
  std::vector<std::string> in;
  for (const auto& arg : request.in) in.emplace_back(cuda::c_type(arg.dtype));
  return cuda::plan_code({request.out[0].shape, in, {cuda::c_type(request.out[0].dtype)}, body, names.text()});
}

std::unique_ptr<Plan> plan_cosine(const PlanRequest& request) {
  return plan_by(request, request.attrs.as<op::CosineAttrs>().margin, op::kCosineEps, kCosine);
}

std::unique_ptr<Plan> plan_triplet(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::TripletAttrs>();
  return plan_by(request, a.margin, a.eps, kTriplet);
}

}  // namespace

void register_cuda_margin_loss(KernelTable& table) {
  table.add("cosine_embedding_loss", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_cosine});
  table.add("triplet_margin_loss", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_triplet});
}

}  // namespace starling::kernels
