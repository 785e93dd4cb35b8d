// Any bytes at all are read or refused with an Error; nothing else may happen.
#include <cstddef>
#include <cstdint>
#include <span>

#include "starling/base/error.h"
#include "starling/data/formats/webdataset.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace starling;  // NOLINT(google-build-using-namespace)
  try {
    const data::RecordLimits limits{.most_record = 1 << 20, .most_unpacked = 1 << 24};
    const auto reader = read_webdataset(data::ByteSource::of(std::as_bytes(std::span(data, size)), "fuzz",
                                                             {.who = "webdataset", .most_unpacked = 1 << 24}),
                                        limits);
    while (reader->next() != nullptr) {
    }
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): being refused is the other good end
  }
  return 0;
}
