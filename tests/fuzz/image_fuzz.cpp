// Any bytes at all are read or refused with an Error; nothing else may happen.
#include <cstddef>
#include <cstdint>
#include <span>

#include "starling/base/error.h"
#include "starling/data/formats/image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace starling;  // NOLINT(google-build-using-namespace)
  try {
    static_cast<void>(
        data::decode_image(std::as_bytes(std::span(data, size)), "fuzz", {.channels = 1, .most_pixels = 1 << 16}));
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): being refused is the other good end
  }
  return 0;
}
