#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "starling/base/hash.h"
#include "starling/base/result.h"

namespace starling {

// A file descriptor, closed when it goes.
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

// A whole regular file mapped for reading. Shared by whoever views its bytes. The file must not be truncated meanwhile
// (deleting it is fine): files we write are replaced by renaming, never rewritten.
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

// Writes a new file front to back, keeping its size and checksum. After the first failure every call fails: a write or
// fsync that failed is never tried again on the same file.
class FileWriter {
 public:
  static Result<FileWriter> create(const std::filesystem::path& path);  // fails when the file exists

  Result<void> write(std::span<const std::byte> bytes);
  Result<void> write(std::string_view text);
  Result<void> finish();  // fsync and close; nothing may be written after it

  std::uint64_t size() const { return size_; }
  std::string checksum() const { return hash_.hex(); }

 private:
  FileWriter(UniqueFd fd, std::filesystem::path path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  Hash128 hash_;
};

// Makes the names in a folder (created, renamed, removed) durable.
Result<void> sync_folder(const std::filesystem::path& folder);

// The name under which a file is written before it gets its own; the file is removed unless it was published.
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

// The whole file as text; fails when it is larger than `most` bytes.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t most);
Result<std::string> read_file(const UniqueFd& fd, const std::string& name, std::size_t most);

std::string errno_text();  // of the last failed system call of this thread

}  // namespace starling
