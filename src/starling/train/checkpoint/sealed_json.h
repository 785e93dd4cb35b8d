#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "starling/base/file/file.h"
#include "starling/base/result.h"

namespace starling::train {

// Description of a folder of files: JSON with a checksum of itself and of the files it lists, so that damage to either
// is detected before use.

struct ListedFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string checksum;  // XXH3-128, hex
};

struct SealedFormat {
  const char* name;  // value of the key "format"
  std::int64_t version;
};

// `contents` as text with format, version and checksum added. Throws nlohmann::json::exception on text that is not
// UTF-8.
std::string format_sealed(nlohmann::json contents, const SealedFormat& format);
// Parses and verifies such a text. Throws "expected …, got …" on another format or version, on damage and on too deep
// nesting; nlohmann::json::exception on invalid JSON.
nlohmann::json parse_sealed(const std::string& text, const SealedFormat& format);

// Text for messages: bytes other than printable ASCII, as damage leaves them, are written as \xNN, so that they cannot
// command the terminal; a long text keeps its two ends.
std::string printable(std::string_view text);

nlohmann::json listed_files(const std::vector<ListedFile>& files);
std::vector<ListedFile> read_listed_files(const nlohmann::json& json, std::size_t most);

// Maps a listed file if it lies beneath the folder and matches its entry; `who` begins error messages.
Result<std::shared_ptr<const MappedFile>> map_listed(const std::filesystem::path& folder, const ListedFile& entry,
                                                     const char* who);

}  // namespace starling::train
