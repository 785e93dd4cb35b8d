#pragma once

#include <filesystem>
#include <memory>

#include "starling/data/formats/byte_source.h"
#include "starling/data/records/record_reader.h"

namespace starling::data {

// Reader of WebDataset shards: tar files, plain or gzipped. Consecutive files that share the path up to the first dot
// of the last component are one sample: "a/0001.left.jpg" is the part "left.jpg" of the sample "a/0001". Files without
// an extension are skipped.
std::unique_ptr<RecordReader> open_webdataset(const std::filesystem::path& file, std::uint64_t offset,
                                              const RecordLimits& limits = {});
std::unique_ptr<RecordReader> read_webdataset(ByteSource source, const RecordLimits& limits = {});

}  // namespace starling::data
