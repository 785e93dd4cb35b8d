#include "starling/data/pictures/affine.h"

#include <cmath>
#include <numbers>
#include <type_traits>

#include "starling/base/error.h"

namespace starling::data {
namespace {

// Maps an output pixel to its source location, both relative to the centre.
struct Inverse {
  double a, b, c, d;
  explicit Inverse(const Affine& affine) {
    const double angle = affine.angle * std::numbers::pi / 180,
                 tangent = std::tan(affine.shear * std::numbers::pi / 180);
    const double cosine = std::cos(angle), sine = std::sin(angle);
    // Forward: turn · shear · scale.
    const double m00 = cosine * affine.scale, m01 = (cosine * tangent - sine) * affine.scale;
    const double m10 = sine * affine.scale, m11 = (sine * tangent + cosine) * affine.scale;
    const double determinant = m00 * m11 - m01 * m10;
    check(std::abs(determinant) > 1e-12, "[affine] expected a scale other than 0, got {}", affine.scale);
    a = m11 / determinant;
    b = -m01 / determinant;
    c = -m10 / determinant;
    d = m00 / determinant;
  }
};

template <class T>
void run(const T* from, T* to, std::int64_t channels, std::int64_t height, std::int64_t width, const Affine& affine,
         T fill) {
  const Inverse inverse(affine);
  const double middle_x = static_cast<double>(width - 1) / 2, middle_y = static_cast<double>(height - 1) / 2;
  const std::int64_t plane = height * width;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const double px = static_cast<double>(x) - middle_x - affine.shift_x;
      const double py = static_cast<double>(y) - middle_y - affine.shift_y;
      const double sx = inverse.a * px + inverse.b * py + middle_x, sy = inverse.c * px + inverse.d * py + middle_y;
      const double floor_x = std::floor(sx), floor_y = std::floor(sy);
      const auto fx = static_cast<float>(sx - floor_x), fy = static_cast<float>(sy - floor_y);
      const auto x0 = static_cast<std::int64_t>(floor_x), y0 = static_cast<std::int64_t>(floor_y);
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto at = [&](std::int64_t row, std::int64_t column) {
          const bool inside = row >= 0 && row < height && column >= 0 && column < width;
          return static_cast<float>(inside ? from[c * plane + row * width + column] : fill);
        };
        const float value = (1 - fy) * ((1 - fx) * at(y0, x0) + fx * at(y0, x0 + 1)) +
                            fy * ((1 - fx) * at(y0 + 1, x0) + fx * at(y0 + 1, x0 + 1));
        to[c * plane + y * width + x] = static_cast<T>(std::is_same_v<T, float> ? value : value + 0.5F);
      }
    }
  }
}

}  // namespace

void warp(const float* from, float* to, std::int64_t channels, std::int64_t height, std::int64_t width,
          const Affine& affine, float fill) {
  run(from, to, channels, height, width, affine, fill);
}
void warp(const std::uint8_t* from, std::uint8_t* to, std::int64_t channels, std::int64_t height, std::int64_t width,
          const Affine& affine, std::uint8_t fill) {
  run(from, to, channels, height, width, affine, fill);
}

}  // namespace starling::data
