#include "starling/ops/api/rearrange.h"

#include <array>

#include "starling/kernels/cuda/stages.h"
#include "starling/ops/def/attrs/rearrange.h"

namespace starling::kernels {
namespace {

// Plan of a rearrangement; place(axis, coordinate) is code for the position along an axis of x.
template <class F>
std::unique_ptr<Plan> plan_moved(const PlanRequest& request, F place) {
  const ArgDesc &in = request.in[0], &out = request.out[0];
  const int extra = out.shape.rank() - in.shape.rank();
  std::string from = "0ll";
  for (int d = 0; d < in.shape.rank(); ++d)
    from += fmt::format(" + (long long)({}) * {}ll", place(d, fmt::format("x{}", d + extra)), in.strides[d]);
  const std::string type = cuda::moved_type(in.dtype);
  return cuda::plan_code({out.shape, {type}, {type}, fmt::format("  o0[i] = a0[{}];", from), {}});
}

std::unique_ptr<Plan> plan_tile(const PlanRequest& request) {
  const Shape shape = request.in[0].shape;
  return plan_moved(request, [&](int d, const std::string& x) { return fmt::format("{} % {}", x, shape[d]); });
}

std::unique_ptr<Plan> plan_repeat(const PlanRequest& request) {
  const auto a = request.attrs.as<op::RepeatAttrs>();
  const int axis = normalize_axis(a.axis, request.in[0].shape.rank(), "repeat");
  return plan_moved(request,
                    [&](int d, const std::string& x) { return d == axis ? fmt::format("{} / {}", x, a.repeats) : x; });
}

std::unique_ptr<Plan> plan_flip(const PlanRequest& request) {
  const Shape shape = request.in[0].shape;
  std::array<bool, kMaxRank> turned{};
  for (auto axis : request.attrs.as<op::FlipAttrs>().axes)
    turned[static_cast<std::size_t>(normalize_axis(axis, shape.rank(), "flip"))] = true;
  return plan_moved(request, [&](int d, const std::string& x) {
    return turned[static_cast<std::size_t>(d)] ? fmt::format("{} - {}", shape[d] - 1, x) : x;
  });
}

std::unique_ptr<Plan> plan_roll(const PlanRequest& request) {
  const Shape shape = request.in[0].shape;
  if (shape.numel() == 0) return make_plan([](const Launch&) {});
  const Shape by = op::rolled_by(request.attrs.as<op::RollAttrs>(), shape);
  return plan_moved(request, [&](int d, const std::string& x) {
    return fmt::format("({} + {}ll) % {}", x, shape[d] - by[d], shape[d]);
  });
}

}  // namespace

void register_cuda_rearrange(KernelTable& table) {
  table.add("tile", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_tile});
  table.add("repeat", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_repeat});
  table.add("flip", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_flip});
  table.add("roll", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_roll});
}

}  // namespace starling::kernels
