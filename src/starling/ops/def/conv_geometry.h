#pragma once

#include "starling/ops/api/conv.h"
#include "starling/ops/def/attrs.h"
#include "starling/tensor/shape.h"

namespace starling {

// Convolution of any number of dimensions, expressed in 3-D: shapes [n, c, depth, h, w] where missing sizes are 1, and
// (depth, h, w) of everything else. Shared by definitions and kernels of all convolutions.
struct ConvGeometry {
  Shape x{}, w{}, y{};
  Shape stride{}, padding{}, dilation{};
  std::int64_t groups = 1;

  std::int64_t group_in() const { return w[1]; }
  std::int64_t group_out() const { return groups == 0 ? 0 : w[0] / groups; }
  std::int64_t taps() const { return w[1] * w[2] * w[3] * w[4]; }
  std::int64_t positions() const { return y[2] * y[3] * y[4]; }
};

inline Shape spatial(std::int64_t size) { return {size}; }
inline Shape spatial(const Pair& sizes) { return {sizes[0], sizes[1]}; }
inline Shape spatial(const Shape& sizes) { return sizes; }

inline constexpr int spatial_rank(const std::int64_t&) { return 1; }
inline constexpr int spatial_rank(const Pair&) { return 2; }
inline constexpr int spatial_rank(const Shape&) { return 3; }

// Computes the geometry; throws "[who] expected …" on inconsistent sizes.
ConvGeometry conv_geometry(int dims, const Shape& x, const Shape& w, const Shape& stride, const Shape& padding,
                           const Shape& dilation, std::int64_t groups, const char* who);

template <class A>
ConvGeometry conv_geometry(const Shape& x, const Shape& w, const A& a, const char* who) {
  return conv_geometry(spatial_rank(a.stride), x, w, spatial(a.stride), spatial(a.padding), spatial(a.dilation),
                       a.groups, who);
}

// Result shape [n, c, sizes..], converted back from five dimensions.
Shape without_unit_sizes(const Shape& five, int dims);

// Windows over an image [.., h, w], for unfold and locally connected layers.
struct Windows2d {
  Pair kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};
};
Pair window_counts(const Shape& image, const Windows2d& windows, const char* who);

}  // namespace starling
