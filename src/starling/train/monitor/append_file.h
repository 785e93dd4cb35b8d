#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "starling/base/file/file.h"

namespace starling::train {

// A file that grows by whole records. A record that cannot be written completely leaves nothing behind, and later
// records are tried again, since a full disk may have room then. Appended records are with the operating system, so a
// killed process loses none.
class AppendFile {
 public:
  // Creates folder and file if missing. `keep`: bytes of an existing file to keep.
  static Result<AppendFile> open(const std::filesystem::path& path, std::uint64_t keep = UINT64_MAX);

  Result<void> append(std::string_view record);

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }

 private:
  AppendFile(UniqueFd fd, std::filesystem::path path, std::uint64_t size)
      : fd_(std::move(fd)), path_(std::move(path)), size_(size) {}

  UniqueFd fd_;
  std::filesystem::path path_;
  std::uint64_t size_;
};

}  // namespace starling::train
