#include "starling/ops/random.h"

#include "starling/base/philox.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/strides.h"

namespace starling {
namespace {

// The place of each element of a piece in the whole tensor; the key comes as a tensor (seed, step).
struct Piece {
  Shape shape;
  Shape global_strides;
  std::uint64_t first = 0;

  Piece(const Shape& own, const Shape& global, const Shape& offset)
      : shape(own), global_strides(contiguous_strides(global.empty() ? own : global)) {
    for (int i = 0; i < offset.rank(); ++i) first += static_cast<std::uint64_t>(offset[i] * global_strides[i]);
  }

  // Calls f(index in the piece, index in the whole).
  template <class F>
  void each(F&& f) const {
    const std::array<Shape, 2> strides{contiguous_strides(shape), global_strides};
    for_each_offset(shape, strides, [&](const std::array<std::int64_t, 2>& at) {
      f(at[0], first + static_cast<std::uint64_t>(at[1]));
    });
  }
};

PhiloxStream stream_of(const void* key, std::int64_t site) {
  const auto* words = static_cast<const std::int64_t*>(key);
  return PhiloxStream(
      {static_cast<std::uint64_t>(words[0]), static_cast<std::uint64_t>(words[1]), static_cast<std::uint64_t>(site)});
}

std::unique_ptr<Plan> plan_random(const PlanRequest& request, double (*draw)(const PhiloxStream&, std::uint64_t),
                                  bool is_range) {
  const auto a = request.attrs.as<RandomAttrs>();
  const Piece piece(a.shape, a.global, a.offset);
  // Scales are rounded to float, as all random numbers are made in float.
  const double scale = static_cast<double>(static_cast<float>(is_range ? a.b - a.a : a.b));
  return make_plan([=](const Launch& launch) {
    const PhiloxStream stream = stream_of(launch.in[0], a.site);
    piece.each([&](std::int64_t i, std::uint64_t global) {
      reference::write<double>(a.dtype, launch.out[0], i, a.a + scale * draw(stream, global));
    });
  });
}

std::unique_ptr<Plan> plan_dropout(const PlanRequest& request) {
  const auto a = request.attrs.as<DropoutAttrs>();
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

}  // namespace starling
