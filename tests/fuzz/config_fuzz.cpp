// Any bytes at all are read or refused with an Error; nothing else may happen.
#include <cstddef>
#include <cstdint>
#include <string>

#include "starling/base/config/config.h"
#include "starling/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace starling;  // NOLINT(google-build-using-namespace)
  try {
    static_cast<void>(ConfigNode::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz"));
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): being refused is the other good end
  }
  return 0;
}
