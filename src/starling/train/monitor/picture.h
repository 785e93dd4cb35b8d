#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::train {

// Image, row-major from the top left; 1 channel (grey) or 3 (red, green, blue).
struct Picture {
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 1;
  std::vector<std::uint8_t> pixels{};
};

// Encodes the image as a PNG file.
std::string to_png(const Picture& image);

// True if samples of a batch look like images: [n, h, w], [n, 1, h, w] or [n, 3, h, w] of a float or u8, with 4 to 1024
// pixels a side.
bool looks_like_images(const Tensor& batch);

// The first samples of such a batch in a nearly square grid. Each float sample is stretched to the range from black to
// white; bytes are used as they are.
Picture contact_sheet(const Tensor& batch, std::int64_t most);

}  // namespace starling::train
