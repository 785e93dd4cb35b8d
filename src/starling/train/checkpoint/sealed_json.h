#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/base/file.h"
#include "starling/base/result.h"

namespace starling {

// What describes a folder of files: JSON that carries a checksum of itself and of the files it lists, so that damage to
// either is found before anything is made of them.

struct ListedFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string checksum;  // XXH3-128, hex
};

struct SealedFormat {
  const char* name;  // the value of "format"
  std::int64_t version;
};

// Text of `contents` with format, version and checksum. Throws nlohmann::json::exception on text that is not UTF-8.
std::string format_sealed(nlohmann::json contents, const SealedFormat& format);
// Back to the contents; throws "expected …, got …" on other formats and versions, on damage and on nesting that no such
// text has; nlohmann::json::exception on what is no JSON.
nlohmann::json parse_sealed(const std::string& text, const SealedFormat& format);

nlohmann::json listed_files(const std::vector<ListedFile>& files);
std::vector<ListedFile> read_listed_files(const nlohmann::json& json, std::size_t most);

// The file, if it lies beneath the folder and is what the list says; `who` begins the messages.
Result<std::shared_ptr<const MappedFile>> map_listed(const std::filesystem::path& folder, const ListedFile& entry,
                                                     const char* who);

}  // namespace starling
