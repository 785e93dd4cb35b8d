#pragma once

#include <array>

#include "starling/ops/api/pool.h"

namespace starling {

// One spatial dimension of a pooling op.
struct PoolAxis {
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;

  std::int64_t start(std::int64_t window) const { return window * stride - padding; }
  // Taps [first_tap, end_tap) of a window that lie in the image.
  std::int64_t first_tap(std::int64_t window) const;
  std::int64_t end_tap(std::int64_t window) const;
  // Number of elements of a window (without dilation) that a mean counts: in the padded image, or in the image.
  std::int64_t counted(std::int64_t window, bool include_pad) const;
};

// Geometry in three spatial dimensions; missing leading ones have size 1.
struct PoolGeometry {
  std::int64_t planes = 0;  // n · c
  std::array<PoolAxis, 3> axes{};
  Shape y{};

  std::int64_t in_volume() const { return axes[0].in * axes[1].in * axes[2].in; }
  std::int64_t out_volume() const { return axes[0].out * axes[1].out * axes[2].out; }
};

// Checks all arguments and counts the windows; throws "[who] expected …". `spatial` is the required number of spatial
// dimensions of x, 0: any.
PoolGeometry pool_geometry(const Shape& x, const op::MaxPoolAttrs& attrs, int spatial, const char* who);
PoolGeometry pool_geometry(const Shape& x, const op::AvgPoolAttrs& attrs, int spatial, const char* who);
PoolGeometry pool_geometry(const Shape& x, const op::LpPoolAttrs& attrs, int spatial, const char* who);

// Geometry of adaptive pooling: only `in` and `out` of the axes are used.
PoolGeometry adaptive_geometry(const Shape& x, const Shape& size, int spatial, const char* who);

// Trailing digit of max_pool2d and the like; 0 if the name has none.
int spatial_dims(const std::string& op_name);

}  // namespace starling
