#include "starling/ops/api/interpolate.h"

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

// Calls f(pixel of the result, pixel of x, weight) for every pair with a weight.
template <class Attributes, class F>
void each_pair(const Shape& x, const Shape& y, const Attributes& a, F&& f) {
  if (x.numel() == 0) return;
  const auto rows = op::pixel_mixes(x[2], y[2], a.scale_h, a.mode, a.align_corners);
  const auto columns = op::pixel_mixes(x[3], y[3], a.scale_w, a.mode, a.align_corners);
  std::int64_t at = 0;
  for (std::int64_t plane = 0; plane < x[0] * x[1]; ++plane) {
    const auto place = [&](std::int64_t i, std::int64_t j) { return (plane * x[2] + i) * x[3] + j; };
    for (const auto& r : rows) {
      for (const auto& c : columns) {
        f(at, place(r.low, c.low), (1 - r.weight) * (1 - c.weight));
        f(at, place(r.low, c.high), (1 - r.weight) * c.weight);
        f(at, place(r.high, c.low), r.weight * (1 - c.weight));
        f(at, place(r.high, c.high), r.weight * c.weight);
        ++at;
      }
    }
  }
}

std::unique_ptr<Plan> plan_forward(const PlanRequest& r) {
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([x = r.in[0].shape, y = r.out[0].shape, a = r.attrs.as<op::InterpolateAttrs>()](const Launch& l) {
      auto* out = static_cast<T*>(l.out[0]);
      std::fill_n(out, y.numel(), T{0});
      each_pair(x, y, a, [&](auto to, auto from, double weight) {
        if (weight != 0) out[to] += static_cast<T>(weight * static_cast<double>(static_cast<const T*>(l.in[0])[from]));
      });
    });
  });
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& r) {
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan(
        [y = r.in[0].shape, x = r.out[0].shape, a = r.attrs.as<op::InterpolateGradAttrs>()](const Launch& l) {
          auto* dx = static_cast<T*>(l.out[0]);
          std::fill_n(dx, x.numel(), T{0});
          each_pair(x, y, a, [&](auto from, auto to, double weight) {
            if (weight != 0)
              dx[to] += static_cast<T>(weight * static_cast<double>(static_cast<const T*>(l.in[0])[from]));
          });
        });
  });
}

}  // namespace

void register_reference_interpolate(KernelTable& table) {
  table.add("interpolate", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_forward));
  table.add("interpolate_backward", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_backward));
}

}  // namespace starling::kernels
