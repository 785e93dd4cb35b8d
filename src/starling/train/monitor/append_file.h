#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "starling/base/file.h"

namespace starling {

// A file that grows by whole records. A record that cannot be written as a whole leaves nothing behind, and the next
// one is tried again: a disk that was full may have room later. What was appended is with the operating system, so that
// a killed process loses none of it.
class AppendFile {
 public:
  // Makes the folder and the file when they are not there. `keep`: bytes of an existing file that stay.
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

}  // namespace starling
