#pragma once

#include <array>

#include "starling/ops/pool.h"

namespace starling {

// One spatial dimension of a pooling.
struct PoolAxis {
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;

  std::int64_t start(std::int64_t window) const { return window * stride - padding; }
  // Taps [first_tap, end_tap) of a window lie in the image.
  std::int64_t first_tap(std::int64_t window) const;
  std::int64_t end_tap(std::int64_t window) const;
  // Elements of a window (without dilation) that a mean counts: those of the padded image, or of the image.
  std::int64_t counted(std::int64_t window, bool include_pad) const;
};

// Images of fewer than three spatial dimensions have leading ones of size 1.
struct PoolGeometry {
  std::int64_t planes = 0;  // n · c
  std::array<PoolAxis, 3> axes{};
  Shape y{};

  std::int64_t in_volume() const { return axes[0].in * axes[1].in * axes[2].in; }
  std::int64_t out_volume() const { return axes[0].out * axes[1].out * axes[2].out; }
};

// Checks everything and counts the windows; throws "[who] expected …". `spatial` is the number of spatial dimensions
// that x must have, 0: as many as it has.
PoolGeometry pool_geometry(const Shape& x, const MaxPoolAttrs& attrs, int spatial, const char* who);
PoolGeometry pool_geometry(const Shape& x, const AvgPoolAttrs& attrs, int spatial, const char* who);
PoolGeometry pool_geometry(const Shape& x, const LpPoolAttrs& attrs, int spatial, const char* who);

// Only `in` and `out` of the axes mean something here.
PoolGeometry adaptive_geometry(const Shape& x, const Shape& size, int spatial, const char* who);

// The trailing digit of max_pool2d and its like; 0 where the name has none.
int spatial_dims(const std::string& op_name);

}  // namespace starling
