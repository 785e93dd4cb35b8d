#pragma once

#include <cstdint>
#include <vector>

namespace starling::data {

enum class ResizeMode {
  bilinear,  // two nearest pixels per axis, centres aligned, as PyTorch's interpolate
  smooth,    // bilinear for enlarging; antialiased (triangle filter) for shrinking
  area,      // mean of the source pixels that each output pixel covers
};

// Memory format of an image: element (y, x, c) is at y · row + x · pixel + c · channel.
struct PixelFormat {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
  std::int64_t row = 0;
  std::int64_t pixel = 0;
  std::int64_t channel = 0;

  static PixelFormat planes(std::int64_t channels, std::int64_t height, std::int64_t width) {
    return {height, width, channels, width, 1, height * width};
  }
  static PixelFormat interleaved(std::int64_t height, std::int64_t width, std::int64_t channels) {
    return {height, width, channels, width * channels, channels, 1};
  }
};

// Resizing between two fixed sizes, with precomputed weights. Const and thread-safe.
class Resampler {
 public:
  Resampler(ResizeMode mode, std::int64_t in_height, std::int64_t in_width, std::int64_t out_height,
            std::int64_t out_width);

  // Bytes are rounded once, at the end. `in` and `out` must have the constructor's sizes and the same number of
  // channels.
  void apply(const float* from, const PixelFormat& in, float* to, const PixelFormat& out) const;
  void apply(const std::uint8_t* from, const PixelFormat& in, std::uint8_t* to, const PixelFormat& out) const;

 private:
  // For each output pixel along an axis: its first source pixel and the weights of `taps` pixels from there on.
  struct Axis {
    Axis(ResizeMode mode, std::int64_t in, std::int64_t out);
    std::int64_t taps = 0;
    std::vector<std::int64_t> first;
    std::vector<float> weights;
  };

  template <class T>
  void run(const T* from, const PixelFormat& in, T* to, const PixelFormat& out) const;

  Axis y_;
  Axis x_;
};

}  // namespace starling::data
