#include "starling/data/formats/image.h"

#include <fmt/format.h>

namespace starling::data {
namespace {

bool begins_with(std::span<const std::byte> file, std::initializer_list<unsigned char> magic) {
  std::size_t i = 0;
  for (auto byte : magic) {
    if (i >= file.size() || file[i++] != std::byte{byte}) return false;
  }
  return true;
}

}  // namespace

bool looks_like_jpeg(std::span<const std::byte> file) { return begins_with(file, {0xFF, 0xD8, 0xFF}); }
bool looks_like_png(std::span<const std::byte> file) {
  return begins_with(file, {0x89, 'P', 'N', 'G', 0x0D, 0x0A, 0x1A, 0x0A});
}

void check_image_size(std::uint64_t height, std::uint64_t width, const std::string& name, const ImageOptions& options) {
  constexpr std::uint64_t kMostSide = 1 << 20;
  if (height < 1 || width < 1)
    throw DamagedImage(fmt::format("[image] {}: expected a picture, got {} × {} pixels", name, width, height));
  check(height <= kMostSide && width <= kMostSide && height * width <= static_cast<std::uint64_t>(options.most_pixels),
        "[image] {}: expected a picture of at most {} pixels, got {} × {} (make it smaller, or raise data.most_pixels)",
        name, options.most_pixels, width, height);
}

Image decode_image(std::span<const std::byte> file, const std::string& name, const ImageOptions& options) {
  check(options.channels == 1 || options.channels == 3, "[image] expected 1 or 3 channels, got {}", options.channels);
  if (looks_like_jpeg(file)) return decode_jpeg(file, name, options);
  if (looks_like_png(file)) return decode_png(file, name, options);
  throw DamagedImage(
      fmt::format("[image] {}: expected a JPEG or a PNG, got a file of {} bytes that is neither", name, file.size()));
}

}  // namespace starling::data
