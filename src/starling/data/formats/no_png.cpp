#include "starling/base/error.h"
#include "starling/data/formats/image.h"

namespace starling::data {

bool has_png() { return false; }

Image decode_png(std::span<const std::byte>, const std::string& name, const ImageOptions&) {
  fail("[image] {}: expected a build with libpng (libpng-dev) to read a PNG, got one without", name);
}

std::string encode_png(const Image&) {
  fail("[image] expected a build with libpng (libpng-dev) to write a PNG, got one without");
}

}  // namespace starling::data
