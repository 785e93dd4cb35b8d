#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "starling/data/formats/byte_source.h"
#include "starling/data/records/record_reader.h"

namespace starling::data {

// Reads a whole text file, plain or gzipped; throws if it holds more than `most` bytes.
std::string read_text_file(const std::filesystem::path& file, std::uint64_t most);

// Reader of a text file's lines as records, without LF or CRLF, including empty lines.
std::unique_ptr<RecordReader> open_lines(const std::filesystem::path& file, std::uint64_t offset,
                                         const RecordLimits& limits = {});
std::unique_ptr<RecordReader> read_lines(ByteSource source, const RecordLimits& limits = {});

}  // namespace starling::data
