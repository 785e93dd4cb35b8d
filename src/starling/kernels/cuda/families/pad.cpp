#include "starling/ops/api/pad.h"

#include "starling/kernels/cuda/stages.h"
#include "starling/ops/def/attrs/pad.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_pad(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::PadAttrs>();
  const ArgDesc &in = request.in[0], &out = request.out[0];
  const char* type = cuda::c_type(in.dtype);
  if (!type) return nullptr;
  std::string body = "  long long from = 0; bool inside = true;\n";
  for (int d = 0; d < in.shape.rank(); ++d) {
    body += fmt::format("  {{ long long at = -1; const long long x = x{};\n", d);
    for (const auto& run : op::pad_runs(a, d, in.shape[d])) {
      if (run.count == 0 || run.constant) continue;
      body += fmt::format("    if (x >= {}ll && x < {}ll) at = {}ll + (x - {}ll) * {}ll;\n", run.begin,
                          run.begin + run.count, run.source, run.begin, run.step);
    }
    body += fmt::format("    inside = inside && at >= 0; from += at * {}ll; }}\n", in.strides[d]);
  }
  body += fmt::format("  o0[i] = inside ? a0[from] : ({}){};", type, cuda::literal(a.value));
  return cuda::plan_code({out.shape, {type}, {type}, body, {}});
}

}  // namespace

void register_cuda_pad(KernelTable& table) {
  table.add("pad", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_pad});
}

}  // namespace starling::kernels
