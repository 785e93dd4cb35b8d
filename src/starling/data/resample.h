#pragma once

#include <cstdint>
#include <vector>

namespace starling {

enum class ResizeMode {
  bilinear,  // of the two nearest pixels along each axis, centres aligned; as PyTorch's interpolate
  smooth,    // the same when enlarging; when shrinking, all pixels that fall into one (a triangle): no aliasing
  area,      // the mean of the pixels that fall into one
};

// Where the pixels of a picture are: element (y, x, c) at y · row + x · pixel + c · channel from the first.
struct PixelLayout {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
  std::int64_t row = 0;
  std::int64_t pixel = 0;
  std::int64_t channel = 0;

  static PixelLayout planes(std::int64_t channels, std::int64_t height, std::int64_t width) {
    return {height, width, channels, width, 1, height * width};
  }
  static PixelLayout interleaved(std::int64_t height, std::int64_t width, std::int64_t channels) {
    return {height, width, channels, width * channels, channels, 1};
  }
};

// Resizing from one size to another, ready to be used for many pictures. Const and safe on any thread.
class Resampler {
 public:
  Resampler(ResizeMode mode, std::int64_t in_height, std::int64_t in_width, std::int64_t out_height,
            std::int64_t out_width);

  // Bytes are rounded at the end. The layouts have the sizes the resampler was made for and equally many channels.
  void apply(const float* from, const PixelLayout& in, float* to, const PixelLayout& out) const;
  void apply(const std::uint8_t* from, const PixelLayout& in, std::uint8_t* to, const PixelLayout& out) const;

 private:
  // For each pixel of an axis the first pixel it is made of and the weights of those from there on.
  struct Axis {
    Axis(ResizeMode mode, std::int64_t in, std::int64_t out);
    std::int64_t taps = 0;
    std::vector<std::int64_t> first;
    std::vector<float> weights;
  };

  template <class T>
  void run(const T* from, const PixelLayout& in, T* to, const PixelLayout& out) const;

  Axis y_;
  Axis x_;
};

}  // namespace starling
