// Any bytes at all are read or refused with an Error; nothing else may happen.
#include <cstddef>
#include <cstdint>
#include <span>

#include "starling/base/error.h"
#include "starling/data/formats/example.h"
#include "starling/data/formats/tfrecord.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace starling;  // NOLINT(google-build-using-namespace)
  try {
    const data::RecordLimits limits{.most_record = 1 << 20, .most_unpacked = 1 << 24};
    const auto reader = read_tfrecord(data::ByteSource::of(std::as_bytes(std::span(data, size)), "fuzz",
                                                           {.who = "tfrecord", .most_unpacked = 1 << 24}),
                                      limits);
    while (const data::Record* record = reader->next())
      static_cast<void>(data::parse_example(record->parts[0].bytes, "fuzz"));
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): being refused is the other good end
  }
  return 0;
}
