#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling {

// Pixels row by row, from the top left; 1 channel (grey) or 3 (red, green, blue).
struct Picture {
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 1;
  std::vector<std::uint8_t> pixels{};
};

// A PNG file of it, without loss.
std::string to_png(const Picture& image);

// Whether samples of a batch look like pictures: [n, h, w], [n, 1, h, w] or [n, 3, h, w] of a float or u8, of at least
// 4 and at most 1024 pixels a side.
bool looks_like_images(const Tensor& batch);

// The first samples of such a batch side by side, as near to a square as it gets. Each sample of floats is stretched to
// the whole range from black to white; bytes are taken as they are.
Picture contact_sheet(const Tensor& batch, std::int64_t most);

}  // namespace starling
