#pragma once

#include <array>

#include "starling/kernels/kernel.h"
#include "starling/ops/def/pool_geometry.h"

namespace starling::kernels::reference {

// Calls f(element) for the elements of window i along one axis.
template <class F>
void along(const PoolAxis& axis, std::int64_t i, F&& f) {
  for (std::int64_t tap = axis.first_tap(i); tap < axis.end_tap(i); ++tap) f(axis.start(i) + tap * axis.dilation);
}

struct EvenAxis {
  std::int64_t in, out;
};
template <class F>
void along(const EvenAxis& axis, std::int64_t i, F&& f) {
  const std::int64_t end = ((i + 1) * axis.in + axis.out - 1) / axis.out;
  for (std::int64_t at = i * axis.in / axis.out; at < end; ++at) f(at);
}

// Walk over the windows of a pooling, one after another.
template <class Axis>
struct PoolWalk {
  std::int64_t planes;
  std::array<Axis, 3> axes;

  std::int64_t in_volume() const { return axes[0].in * axes[1].in * axes[2].in; }
  std::int64_t outputs() const { return planes * axes[0].out * axes[1].out * axes[2].out; }

  // Calls begin(window, i, j, k), then tap(window, element of x, position in the image) for its elements in order.
  template <class Begin, class Tap>
  void each(Begin&& begin, Tap&& tap) const {
    std::int64_t at = 0;
    for (std::int64_t plane = 0; plane < planes; ++plane)
      for (std::int64_t i = 0; i < axes[0].out; ++i)
        for (std::int64_t j = 0; j < axes[1].out; ++j)
          for (std::int64_t k = 0; k < axes[2].out; ++k, ++at) {
            begin(at, i, j, k);
            along(axes[0], i, [&](std::int64_t d) {
              along(axes[1], j, [&](std::int64_t h) {
                along(axes[2], k, [&](std::int64_t w) {
                  const std::int64_t place = (d * axes[1].in + h) * axes[2].in + w;
                  tap(at, plane * in_volume() + place, place);
                });
              });
            });
          }
  }
};

inline PoolWalk<PoolAxis> pool_walk(const PoolGeometry& g) { return {g.planes, g.axes}; }
inline PoolWalk<EvenAxis> even_pool_walk(const Shape& x, const Shape& y) {
  PoolWalk<EvenAxis> windows{x[0] * x[1], {{{1, 1}, {1, 1}, {1, 1}}}};
  for (int i = 2; i < x.rank(); ++i) windows.axes[static_cast<std::size_t>(5 - x.rank() + i - 2)] = {x[i], y[i]};
  return windows;
}

template <class Attributes>
PoolWalk<PoolAxis> pool_walk(const PlanRequest& r) {
  return pool_walk(pool_geometry(r.in[0].shape, r.attrs.as<Attributes>(), 0, r.op.name.c_str()));
}
inline PoolWalk<EvenAxis> even_pool_walk(const PlanRequest& r) { return even_pool_walk(r.in[0].shape, r.out[0].shape); }

}  // namespace starling::kernels::reference
