#include "starling/ops/api/random.h"

#include <algorithm>
#include <limits>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/piece.h"
#include "starling/kernels/uniform_bound.h"
#include "starling/ops/def/attrs/random.h"

namespace starling::kernels {
namespace {

using reference::Piece;
using reference::stream_of;

std::unique_ptr<Plan> plan_random(const PlanRequest& request, double (*draw)(const PhiloxStream&, std::uint64_t),
                                  bool is_range) {
  const auto a = request.attrs.as<op::RandomAttrs>();
  const Piece piece(a.shape, a.global, a.offset);
  // Scales are rounded to float, as all random numbers are made in float.
  const double scale = static_cast<double>(static_cast<float>(is_range ? a.b - a.a : a.b));
  const double most = is_range ? largest_below(a.dtype, a.a, a.b) : std::numeric_limits<double>::infinity();
  return make_plan([=](const Launch& launch) {
    const PhiloxStream stream = stream_of(launch.in[0], a.site);
    piece.each([&](std::int64_t i, std::uint64_t global) {
      reference::write<double>(a.dtype, launch.out[0], i, std::min(a.a + scale * draw(stream, global), most));
    });
  });
}

std::unique_ptr<Plan> plan_dropout(const PlanRequest& request) {
  const auto a = request.attrs.as<op::DropoutAttrs>();
  const Piece piece(request.in[0].shape, a.global, a.offset);
  const DType dtype = request.in[0].dtype;
  return make_plan([=](const Launch& launch) {
    const PhiloxStream stream = stream_of(launch.in[1], a.site);
    piece.each([&](std::int64_t i, std::uint64_t global) {
      const bool keep = static_cast<double>(philox_uniform(stream, global)) < a.keep;
      reference::write<double>(dtype, launch.out[0], i,
                               keep ? reference::read<double>(dtype, launch.in[0], i) / a.keep : 0.0);
    });
  });
}

double draw_uniform(const PhiloxStream& stream, std::uint64_t index) {
  return static_cast<double>(philox_uniform(stream, index));
}

}  // namespace

void register_reference_random(KernelTable& table) {
  const auto uniform = [](const PlanRequest& request) { return plan_random(request, draw_uniform, true); };
  const auto normal = [](const PlanRequest& request) { return plan_random(request, philox_normal, false); };
  table.add("uniform", DeviceKind::cpu, reference::kernel(Accepts::contiguous, uniform));
  table.add("normal", DeviceKind::cpu, reference::kernel(Accepts::contiguous, normal));
  table.add("dropout", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_dropout));
}

}  // namespace starling::kernels
