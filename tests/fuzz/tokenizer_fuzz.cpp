// Any bytes at all are read or refused with an Error; nothing else may happen.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "starling/base/error.h"
#include "starling/data/tokenizers/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace starling;  // NOLINT(google-build-using-namespace)
  try {
    static_cast<void>(data::parse_tokenizer({reinterpret_cast<const char*>(data), size}, "fuzz"));
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): being refused is the other good end
  }
  return 0;
}
