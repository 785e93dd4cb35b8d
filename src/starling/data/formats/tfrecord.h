#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "starling/data/formats/byte_source.h"
#include "starling/data/record_reader.h"

namespace starling {

// TFRecord files, plain or gzipped: length and bytes, each followed by its masked CRC-32C, which are checked.
std::unique_ptr<RecordReader> open_tfrecord(const std::filesystem::path& file, std::uint64_t offset,
                                            const RecordLimits& limits = {});
std::unique_ptr<RecordReader> read_tfrecord(ByteSource source, const RecordLimits& limits = {});

// One record as it stands in such a file.
void append_tfrecord(std::string& to, std::span<const std::byte> bytes);

}  // namespace starling
