#include "starling/ops/api/rotary.h"

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_rotary(const PlanRequest& request) {
  const auto a = request.attrs.as<op::RotaryAttrs>();
  const Shape& shape = request.in[0].shape;
  const std::int64_t d = shape.back(), steps = shape[shape.rank() - 2], rows = d == 0 ? 0 : shape.numel() / d;
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& l) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto* x = static_cast<const T*>(l.in[0]) + r * d;
        auto* y = static_cast<T*>(l.out[0]) + r * d;
        for (std::int64_t i = 0; i < d / 2; ++i) {
          const double rate = std::pow(a.base, -2.0 * static_cast<double>(i) / static_cast<double>(d));
          const double angle = static_cast<double>(a.offset + r % steps) * rate * (a.inverse ? -1 : 1);
          const std::int64_t at = a.interleaved ? 2 * i : i, other = a.interleaved ? 2 * i + 1 : i + d / 2;
          const auto u = static_cast<double>(x[at]), v = static_cast<double>(x[other]);
          y[at] = static_cast<T>(u * std::cos(angle) - v * std::sin(angle));
          y[other] = static_cast<T>(u * std::sin(angle) + v * std::cos(angle));
        }
      }
    });
  });
}

}  // namespace

void register_reference_rotary(KernelTable& table) {
  table.add("rotary", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_rotary));
}

}  // namespace starling::kernels
