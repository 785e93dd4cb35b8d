#include "starling/ops/api/scan.h"

#include "starling/kernels/cuda/stages.h"
#include "starling/ops/def/attrs/scan.h"

namespace starling::kernels {
namespace {

// One thread per line along an axis; `step` sets y of the element `at` and keeps the state `total`.
std::unique_ptr<Plan> plan_lines(const PlanRequest& request, std::int64_t along, bool reverse,
                                 const std::string& before, const std::string& step) {
  const Shape& shape = request.in[0].shape;
  const int axis = normalize_axis(along, shape.rank(), "scan");
  std::vector<std::string> in;
  for (const auto& arg : request.in) {
    if (!cuda::c_type(arg.dtype)) return nullptr;
    in.emplace_back(cuda::c_type(arg.dtype));
  }
  const char* out = cuda::c_type(request.out[0].dtype);
  if (!out) return nullptr;
  std::int64_t inner = 1;
  for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape[d];
  const std::int64_t n = shape[axis], lines = n > 0 ? shape.numel() / n : 0;
  const std::string body = fmt::format(
      "  const long long first = i / {0}ll * {1}ll + i % {0}ll;\n  {2}\n  for (long long k = 0; k < {3}ll; ++k) {{\n"
      "    const long long at = first + ({4}) * {0}ll;\n    {5}\n  }}",
      inner, inner * n, before, n, reverse ? fmt::format("{}ll - k", n - 1) : "k", step);
  return cuda::plan_code({{lines}, in, {out}, body, {}});
}

auto scanner(bool product) {
  return [product](const PlanRequest& request) {
    const auto& a = request.attrs.as<op::ScanAttrs>();
    const DType dtype = request.in[0].dtype;
    const char* sum = dtype == DType::f64 ? "double" : is_float(dtype) ? "float" : "long long";
    const std::string next = product ? "total * a0[at]" : "total + a0[at]";
    return plan_lines(request, a.axis, a.reverse, fmt::format("{} total = {};", sum, product ? 1 : 0),
                      a.exclusive ? fmt::format("const auto next = {}; o0[at] = total; total = next;", next)
                                  : fmt::format("total = {}; o0[at] = total;", next));
  };
}

std::unique_ptr<Plan> plan_recurrence(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::RecurrenceAttrs>();
  const char* type = cuda::c_type(request.in[0].dtype);
  if (!type) return nullptr;
  return plan_lines(request, a.axis, a.reverse, fmt::format("{} total = 0;", type),
                    "total = a0[at] * total + a1[at]; o0[at] = total;");
}

}  // namespace

void register_cuda_scan(KernelTable& table) {
  table.add("cumsum", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, scanner(false)});
  table.add("cumprod", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, scanner(true)});
  table.add("linear_recurrence", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_recurrence});
}

}  // namespace starling::kernels
