#pragma once

#include <cstdint>

namespace starling::data {

// Affine transform of an image: rotation about its centre (degrees, clockwise as seen), scale, shear along x (degrees)
// and translation in pixels.
struct Affine {
  double angle = 0;
  double scale = 1;
  double shear = 0;
  double shift_x = 0;
  double shift_y = 0;
};

// Applies `affine` with bilinear interpolation; pixels from outside the source get `fill`. Both images are [channels,
// height, width] of one size.
void warp(const float* from, float* to, std::int64_t channels, std::int64_t height, std::int64_t width,
          const Affine& affine, float fill);
void warp(const std::uint8_t* from, std::uint8_t* to, std::int64_t channels, std::int64_t height, std::int64_t width,
          const Affine& affine, std::uint8_t fill);

}  // namespace starling::data
