// Any bytes at all are read or refused with an Error; nothing else may happen.
#include <cstddef>
#include <cstdint>
#include <span>

#include "starling/base/error.h"
#include "starling/data/formats/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace starling;  // NOLINT(google-build-using-namespace)
  try {
    data::CsvReader reader(
        data::ByteSource::of(std::as_bytes(std::span(data, size)), "fuzz", {.who = "csv", .most_unpacked = 1 << 24}),
        {});
    while (reader.next() != nullptr) {
    }
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): being refused is the other good end
  }
  return 0;
}
