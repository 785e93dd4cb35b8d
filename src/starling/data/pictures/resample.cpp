#include "starling/data/pictures/resample.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "starling/base/error.h"

namespace starling::data {

Resampler::Axis::Axis(ResizeMode mode, std::int64_t in, std::int64_t out) {
  check(in >= 1 && out >= 1, "[resize] expected sizes of at least 1, got {} and {}", in, out);
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double support = mode == ResizeMode::smooth ? std::max(1.0, scale) : 1.0;
  taps = mode == ResizeMode::bilinear ? 2 : static_cast<std::int64_t>(std::ceil(2 * support)) + 2;
  if (mode == ResizeMode::area) taps = in / out + 2;
  taps = std::min(taps, in);
  weights.assign(static_cast<std::size_t>(taps * out), 0);
  for (std::int64_t i = 0; i < out; ++i) {
    std::int64_t begin = 0, end = 0;
    std::vector<double> values;
    if (mode == ResizeMode::area) {
      begin = i * in / out;
      end = ((i + 1) * in + out - 1) / out;
      values.assign(static_cast<std::size_t>(end - begin), 1);
    } else {
      const double centre = (static_cast<double>(i) + 0.5) * scale;  // pixel p covers [p, p + 1)
      const double at = mode == ResizeMode::bilinear ? std::max(centre - 0.5, 0.0) + 0.5 : centre;
      begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(at - support + 0.5)));
      end = std::min<std::int64_t>(in, static_cast<std::int64_t>(std::floor(at + support + 0.5)));
      for (auto p = begin; p < end; ++p) {
        values.push_back(std::max(0.0, 1 - std::abs((static_cast<double>(p) + 0.5 - at) / support)));
      }
    }
    double sum = 0;
    for (double value : values) sum += value;
    const std::int64_t start = std::min(begin, in - taps);  // keeps all taps inside
    first.push_back(start);
    for (auto p = begin; p < end; ++p) {
      weights[static_cast<std::size_t>(i * taps + p - start)] =
          static_cast<float>(values[static_cast<std::size_t>(p - begin)] / sum);
    }
  }
}

Resampler::Resampler(ResizeMode mode, std::int64_t in_height, std::int64_t in_width, std::int64_t out_height,
                     std::int64_t out_width)
    : y_(mode, in_height, out_height), x_(mode, in_width, out_width) {
  check(in_height * out_width <= std::max<std::int64_t>(1 << 26, 4 * out_height * out_width),
        "[resize] expected a picture of proportions nearer to {} × {}, got {} × {}", out_width, out_height, in_width,
        in_height);
}

// Horizontal pass into float rows, then the vertical pass. The constructor bounds the memory.
template <class T>
void Resampler::run(const T* from, const PixelFormat& in, T* to, const PixelFormat& out) const {
  const std::int64_t width = out.width;
  std::vector<float> rows(static_cast<std::size_t>(in.height * width));
  std::vector<float> sums(static_cast<std::size_t>(width));
  for (std::int64_t c = 0; c < in.channels; ++c) {
    for (std::int64_t y = 0; y < in.height; ++y) {
      const T* row = from + y * in.row + c * in.channel;
      float* made = rows.data() + y * width;
      const float* weight = x_.weights.data();
      for (std::int64_t x = 0; x < width; ++x, weight += x_.taps) {
        const T* pixel = row + x_.first[static_cast<std::size_t>(x)] * in.pixel;
        float sum = 0;
        for (std::int64_t t = 0; t < x_.taps; ++t) sum += weight[t] * static_cast<float>(pixel[t * in.pixel]);
        made[x] = sum;
      }
    }
    const float* weight = y_.weights.data();
    for (std::int64_t y = 0; y < out.height; ++y, weight += y_.taps) {
      std::fill(sums.begin(), sums.end(), 0.0F);
      for (std::int64_t t = 0; t < y_.taps; ++t) {
        const float* row = rows.data() + (y_.first[static_cast<std::size_t>(y)] + t) * width;
        for (std::int64_t x = 0; x < width; ++x) sums[static_cast<std::size_t>(x)] += weight[t] * row[x];
      }
      T* written = to + y * out.row + c * out.channel;
      for (std::int64_t x = 0; x < width; ++x) {
        const float sum = sums[static_cast<std::size_t>(x)];
        if constexpr (std::is_same_v<T, float>) {
          written[x * out.pixel] = sum;
        } else {
          written[x * out.pixel] = static_cast<T>(std::clamp(sum + 0.5F, 0.0F, 255.0F));
        }
      }
    }
  }
}

void Resampler::apply(const float* from, const PixelFormat& in, float* to, const PixelFormat& out) const {
  run(from, in, to, out);
}
void Resampler::apply(const std::uint8_t* from, const PixelFormat& in, std::uint8_t* to, const PixelFormat& out) const {
  run(from, in, to, out);
}

}  // namespace starling::data
