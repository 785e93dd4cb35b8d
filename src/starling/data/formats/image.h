#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "starling/base/error.h"

namespace starling::data {

// A decoded image, row-major [height, width, channels].
struct Image {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;  // 1: grey, 3: red, green, blue
  std::vector<std::uint8_t> pixels{};
};

struct ImageOptions {
  std::int64_t channels = 3;                         // 1 or 3; the file is converted, transparency dropped
  std::int64_t most_pixels = std::int64_t{1} << 26;  // larger images are refused before memory is allocated
};

// Thrown for a file that is no picture, or a damaged one; not for a sound one that is too large or cannot be read.
class DamagedImage : public Error {
 public:
  using Error::Error;
};

// Decodes a JPEG or PNG, detected by its first bytes. Throws "[image] <name>: expected …, got …": DamagedImage on other
// files and on damage, Error on pictures above the limit and in builds without the library.
Image decode_image(std::span<const std::byte> file, const std::string& name, const ImageOptions& options = {});

bool looks_like_jpeg(std::span<const std::byte> file);
bool looks_like_png(std::span<const std::byte> file);

// Decoders per format; a build may lack either.
bool has_jpeg();
bool has_png();
Image decode_jpeg(std::span<const std::byte> file, const std::string& name, const ImageOptions& options);
Image decode_png(std::span<const std::byte> file, const std::string& name, const ImageOptions& options);
std::string encode_png(const Image& image);

// Luma: 0.299 R + 0.587 G + 0.114 B, rounded.
inline std::uint8_t grey(std::uint8_t r, std::uint8_t g, std::uint8_t b) {
  return static_cast<std::uint8_t>((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16);
}

// Throws if an image of this size exceeds the limits; one without pixels is damaged.
void check_image_size(std::uint64_t height, std::uint64_t width, const std::string& name, const ImageOptions& options);

}  // namespace starling::data
