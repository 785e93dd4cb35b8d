#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "starling/data/formats/byte_source.h"
#include "starling/data/records/record_reader.h"

namespace starling::data {

// Reader of TFRecord files, plain or gzipped. The masked CRC-32C of each length and payload is verified.
std::unique_ptr<RecordReader> open_tfrecord(const std::filesystem::path& file, std::uint64_t offset,
                                            const RecordLimits& limits = {});
std::unique_ptr<RecordReader> read_tfrecord(ByteSource source, const RecordLimits& limits = {});

// Appends one record in TFRecord format to `to`.
void append_tfrecord(std::string& to, std::span<const std::byte> bytes);

}  // namespace starling::data
