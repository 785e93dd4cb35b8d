#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "starling/base/hash/hash.h"
#include "starling/base/result.h"

namespace starling {

// Owning file descriptor: closed on destruction.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd();

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Read-only memory map of a whole regular file, shared by all views of its bytes. The file must not be truncated while
// mapped (deleting it is fine): Starling replaces its files by renaming and never rewrites them.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> map(const std::filesystem::path& path);
  static Result<std::shared_ptr<const MappedFile>> map(const UniqueFd& fd, const std::string& name);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}

  const std::byte* data_;
  std::size_t size_;
};

// Sequential writer of a new file that tracks its size and checksum. After the first failure every call fails: a failed
// write or fsync is never retried on the same file.
class FileWriter {
 public:
  static Result<FileWriter> create(const std::filesystem::path& path);  // fails if the file exists

  Result<void> write(std::span<const std::byte> bytes);
  Result<void> write(std::string_view text);
  Result<void> finish();  // fsync and close; no writes afterwards

  std::uint64_t size() const { return size_; }
  std::string checksum() const { return hash_.hex(); }

 private:
  FileWriter(UniqueFd fd, std::filesystem::path path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  Hash128 hash_;
};

// fsyncs a folder: makes created, renamed and removed names durable.
Result<void> sync_folder(const std::filesystem::path& folder);

// Temporary name for a file being written; the file is removed on destruction unless published.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path final_path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  Result<void> publish();  // renames to the final path and makes that durable

 private:
  std::filesystem::path final_path_;
  std::filesystem::path path_;
};

// Replaces the file as a whole: readers and crashes see the old text or the new one, never a part.
Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view text);

// The whole file as text, to its end whatever its size says (files in /proc have size 0); fails if larger than `most`
// bytes.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t most);
Result<std::string> read_file(const UniqueFd& fd, const std::string& name, std::size_t most);

std::string errno_text();  // text of errno of this thread

}  // namespace starling
