#include "starling/base/error.h"
#include "starling/data/formats/image.h"

namespace starling::data {

bool has_jpeg() { return false; }

Image decode_jpeg(std::span<const std::byte>, const std::string& name, const ImageOptions&) {
  fail("[image] {}: expected a build with libjpeg-turbo (libjpeg62-turbo-dev) to read a JPEG, got one without", name);
}

}  // namespace starling::data
