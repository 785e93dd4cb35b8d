#include "starling/ops/api/rotary.h"

#include <cmath>
#include <vector>

#include "starling/kernels/cpu/simd/rotary.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

// Cosines and sines are part of the plan, since the angles depend on nothing else.
std::unique_ptr<Plan> plan_rotary(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  const auto& a = request.attrs.as<op::RotaryAttrs>();
  const Shape& shape = request.in[0].shape;
  const std::int64_t d = shape.back(), steps = shape[shape.rank() - 2], half = d / 2;
  const std::int64_t rows = shape.numel() == 0 ? 0 : shape.numel() / d;
  std::vector<float> cosines, sines;
  for (std::int64_t t = 0; t < steps && rows > 0; ++t) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double rate = std::pow(a.base, -2.0 * static_cast<double>(i) / static_cast<double>(d));
      const double angle = static_cast<double>(a.offset + t) * rate * (a.inverse ? -1 : 1);
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return make_plan(
      [=, interleaved = a.interleaved, cosines = std::move(cosines), sines = std::move(sines)](const Launch& l) {
        rotate_rows(static_cast<const float*>(l.in[0]), static_cast<float*>(l.out[0]), rows, d,
                    {cosines.data(), sines.data(), steps}, interleaved);
      });
}

}  // namespace

void register_cpu_rotary(KernelTable& table) {
  table.add("rotary", DeviceKind::cpu, {"simd", Accepts::contiguous, plan_rotary});
}

}  // namespace starling::kernels
