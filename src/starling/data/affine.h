#pragma once

#include <cstdint>

namespace starling {

// A turn around the middle of a picture (degrees, clockwise as seen), a scale, a shear along x (degrees) and a shift in
// pixels.
struct Affine {
  double angle = 0;
  double scale = 1;
  double shear = 0;
  double shift_x = 0;
  double shift_y = 0;
};

// Each pixel of `to` is read where it came from, bilinearly; outside there is `fill`. Both are planes of one size.
void warp(const float* from, float* to, std::int64_t channels, std::int64_t height, std::int64_t width,
          const Affine& affine, float fill);
void warp(const std::uint8_t* from, std::uint8_t* to, std::int64_t channels, std::int64_t height, std::int64_t width,
          const Affine& affine, std::uint8_t fill);

}  // namespace starling
