#include "starling/data/pictures/fit_image.h"

#include <algorithm>
#include <cmath>

#include "starling/base/error.h"
#include "starling/data/pictures/resample.h"

namespace starling::data {
namespace {

struct Size {
  std::int64_t height, width;
};

Size scaled_size(const Image& image, Fit fit, std::int64_t height, std::int64_t width) {
  if (fit == Fit::stretch) return {height, width};
  const double by_height = static_cast<double>(height) / static_cast<double>(image.height);
  const double by_width = static_cast<double>(width) / static_cast<double>(image.width);
  const double scale = fit == Fit::crop ? std::max(by_height, by_width) : std::min(by_height, by_width);
  const auto side = [&](std::int64_t from, std::int64_t frame) {
    const std::int64_t made = std::llround(static_cast<double>(from) * scale);
    return fit == Fit::crop ? std::max(made, frame) : std::clamp<std::int64_t>(made, 1, frame);
  };
  return {side(image.height, height), side(image.width, width)};
}

}  // namespace

void fit_image(const Image& image, Fit fit, std::int64_t height, std::int64_t width, std::uint8_t* planes) {
  const std::int64_t channels = image.channels;
  Size size = scaled_size(image, fit, height, width);
  // A very long, thin image would need huge memory to fill the frame: refuse it.
  check(size.height * size.width <= std::max<std::int64_t>(1 << 26, 4 * height * width),
        "[image] expected a picture of proportions nearer to {} × {}, got {} × {}", width, height, image.width,
        image.height);
  std::vector<std::uint8_t> resized;
  const std::uint8_t* pixels = image.pixels.data();
  if (size.height != image.height || size.width != image.width) {
    resized.resize(static_cast<std::size_t>(size.height * size.width * channels));
    const Resampler resampler(ResizeMode::smooth, image.height, image.width, size.height, size.width);
    resampler.apply(pixels, PixelFormat::interleaved(image.height, image.width, channels), resized.data(),
                    PixelFormat::interleaved(size.height, size.width, channels));
    pixels = resized.data();
  }
  const std::int64_t top = (size.height - height) / 2, left = (size.width - width) / 2;  // below 0: padded
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t row = y + top, column = x + left;
        const bool inside = row >= 0 && row < size.height && column >= 0 && column < size.width;
        *planes++ = inside ? pixels[(row * size.width + column) * channels + c] : std::uint8_t{0};
      }
    }
  }
}

}  // namespace starling::data
