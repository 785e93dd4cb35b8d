#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/cuda/term_walk.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/def/attrs/reduce.h"

namespace starling::kernels {
namespace {

// One thread per result walks its terms in order: the first of equal values wins, and NaN over numbers.
auto planner(bool largest) {
  return [largest](const PlanRequest& request) -> std::unique_ptr<Plan> {
    const ArgDesc& x = request.in[0];
    const char* type = cuda::c_type(x.dtype);
    if (!type) return nullptr;
    const Shape axes = op::reduced_axes(request.attrs.as<op::ReduceAttrs>().axes, x.shape.rank(), "reduce");
    const cuda::TermWalk walk = cuda::walk_terms(x, axes);
    const std::string body = fmt::format(
        "  const long long base = {};\n  {} best = 0; long long found = 0;\n"
        "  for (long long j = 0; j < {}ll; ++j) {{\n    long long r = j;\n{}    const auto v = a0[base + {}];\n"
        "    if (j == 0 || v {} best || (v != v && best == best)) {{ best = v; found = j; }}\n  }}\n  o0[i] = found;",
        walk.base, type, walk.terms, walk.decoded, walk.place, largest ? ">" : "<");
    return cuda::plan_code({walk.kept, {type}, {"long long"}, body, {}});
  };
}

}  // namespace

void register_cuda_arg_reduce(KernelTable& table) {
  table.add("argmax", DeviceKind::cuda, {"nvrtc", Accepts::strided, planner(true)});
  table.add("argmin", DeviceKind::cuda, {"nvrtc", Accepts::strided, planner(false)});
}

}  // namespace starling::kernels
