#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "starling/data/formats/byte_source.h"
#include "starling/data/record_reader.h"

namespace starling {

// A whole text file, plain or gzipped; throws when it holds more than `most` bytes.
std::string read_text_file(const std::filesystem::path& file, std::uint64_t most);

// The lines of a text file as records, without their LF or CRLF; empty ones too.
std::unique_ptr<RecordReader> open_lines(const std::filesystem::path& file, std::uint64_t offset,
                                         const RecordLimits& limits = {});
std::unique_ptr<RecordReader> read_lines(ByteSource source, const RecordLimits& limits = {});

}  // namespace starling
