// Any bytes at all are read or refused with an Error; nothing else may happen.
#include <cstddef>
#include <cstdint>
#include <span>

#include "starling/base/error.h"
#include "starling/data/formats/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace starling;  // NOLINT(google-build-using-namespace)
  try {
    static_cast<void>(data::parse_npy(std::as_bytes(std::span(data, size)), "fuzz", {.most_bytes = 1 << 24}));
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): being refused is the other good end
  }
  return 0;
}
