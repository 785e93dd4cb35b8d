#include "starling/ops/api/rotary.h"

#include "starling/kernels/cuda/stages.h"
#include "starling/ops/def/attrs/rotary.h"

namespace starling::kernels {
namespace {

// One thread per pair of elements: the result may overwrite the operand.
std::unique_ptr<Plan> plan_rotary(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::RotaryAttrs>();
  const char* type = cuda::c_type(request.in[0].dtype);
  const Shape& shape = request.in[0].shape;
  const std::int64_t d = shape.back(), steps = shape[shape.rank() - 2], rows = d == 0 ? 0 : shape.numel() / d;
  if (!type) return nullptr;
  const std::string body = fmt::format(
      "  const double rate = pow({}, -2.0 * x1 / {});\n"
      "  const double angle = (double)({}ll + x0 % {}ll) * rate * {};\n"
      "  const long long at = x0 * {}ll + {}, other = x0 * {}ll + {};\n"
      "  const {} u = a0[at], v = a0[other], c = cos(angle), s = sin(angle);\n"
      "  o0[at] = u * c - v * s; o0[other] = u * s + v * c;",
      cuda::literal(a.base), d, a.offset, std::max<std::int64_t>(steps, 1), a.inverse ? -1 : 1, d,
      a.interleaved ? "2 * x1" : "x1", d, a.interleaved ? "2 * x1 + 1" : fmt::format("x1 + {}ll", d / 2), type);
  return cuda::plan_code({{rows, d / 2}, {type}, {type}, body, {}});
}

}  // namespace

void register_cuda_rotary(KernelTable& table) {
  table.add("rotary", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_rotary});
}

}  // namespace starling::kernels
