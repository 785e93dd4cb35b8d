#include "starling/ops/api/rearrange.h"

#include <algorithm>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/moved.h"
#include "starling/ops/def/attrs/rearrange.h"

namespace starling::kernels {
namespace {

using reference::Index;

// Plan of a rearrangement; place(axis, i) is the element along an axis of x for position i of the result.
template <class F>
std::unique_ptr<Plan> plan_moved(const PlanRequest& request, F place) {
  const ArgDesc in = request.in[0], out = request.out[0];
  const auto extra = static_cast<std::size_t>(out.shape.rank() - in.shape.rank());
  return make_plan([=](const Launch& launch) {
    reference::move_elements(out.shape, size_of(in.dtype), launch.in[0], nullptr, launch.out[0],
                             [&](const Index& index) {
                               std::int64_t at = 0;
                               for (int d = 0; d < in.shape.rank(); ++d)
                                 at += place(d, index[static_cast<std::size_t>(d) + extra]) * in.strides[d];
                               return at;
                             });
  });
}

std::unique_ptr<Plan> plan_tile(const PlanRequest& request) {
  return plan_moved(request, [shape = request.in[0].shape](int d, std::int64_t i) { return i % shape[d]; });
}

std::unique_ptr<Plan> plan_repeat(const PlanRequest& request) {
  const auto a = request.attrs.as<op::RepeatAttrs>();
  const int axis = normalize_axis(a.axis, request.in[0].shape.rank(), "repeat");
  return plan_moved(request, [=](int d, std::int64_t i) { return d == axis ? i / a.repeats : i; });
}

std::unique_ptr<Plan> plan_flip(const PlanRequest& request) {
  const Shape shape = request.in[0].shape;
  std::array<bool, kMaxRank> turned{};
  for (auto axis : request.attrs.as<op::FlipAttrs>().axes)
    turned[static_cast<std::size_t>(normalize_axis(axis, shape.rank(), "flip"))] = true;
  return plan_moved(request,
                    [=](int d, std::int64_t i) { return turned[static_cast<std::size_t>(d)] ? shape[d] - 1 - i : i; });
}

std::unique_ptr<Plan> plan_roll(const PlanRequest& request) {
  const Shape shape = request.in[0].shape, by = op::rolled_by(request.attrs.as<op::RollAttrs>(), shape);
  return plan_moved(request, [=](int d, std::int64_t i) { return (i - by[d] + shape[d]) % shape[d]; });
}

}  // namespace

void register_reference_rearrange(KernelTable& table) {
  table.add("tile", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_tile));
  table.add("repeat", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_repeat));
  table.add("flip", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_flip));
  table.add("roll", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_roll));
}

}  // namespace starling::kernels
