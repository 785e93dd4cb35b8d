#include "starling/base/file/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "starling/base/bytes.h"
#include "starling/base/file/mapped_guard.h"
#include "starling/base/file/temporary_name.h"

namespace starling {
namespace {

constexpr std::size_t kBeyondSize = 4096;  // bytes looked for behind a file's size: files in /proc have size 0

Result<UniqueFd> open_for_reading(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return failure("[file] expected to open {}, got: {}", path.string(), errno_text());
  return fd;
}

Result<std::size_t> size_of_regular(const UniqueFd& fd, const std::string& name) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return failure("[file] expected to read {}, got: {}", name, errno_text());
  if (!S_ISREG(info.st_mode)) return failure("[file] expected a regular file, got {}", name);
  return static_cast<std::size_t>(info.st_size);
}

}  // namespace

std::string errno_text() { return std::generic_category().message(errno); }

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::shared_ptr<const MappedFile>> MappedFile::map(const std::filesystem::path& path) {
  auto fd = open_for_reading(path);
  if (!fd) return fd.failure();
  return map(*fd, path.string());
}

Result<std::shared_ptr<const MappedFile>> MappedFile::map(const UniqueFd& fd, const std::string& name) {
  auto size = size_of_regular(fd, name);
  if (!size) return size.failure();
  if (*size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(nullptr, 0));
  void* data = ::mmap(nullptr, *size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return failure("[file] expected to map {} ({} bytes), got: {}", name, *size, errno_text());
  guard_mapped(data, *size, name);
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const std::byte*>(data), *size));
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  unguard_mapped(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<FileWriter> FileWriter::create(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd) return failure("[file] expected to create {}, got: {}", path.string(), errno_text());
  return FileWriter(std::move(fd), path);
}

Result<void> FileWriter::write(std::span<const std::byte> bytes) {
  if (!fd_) return failure("[file] expected {} to be open, got a file that failed or was finished", path_.string());
  hash_.update(bytes);
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), std::min<std::size_t>(bytes.size(), std::size_t{1} << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      auto result = failure("[file] expected to write {}, got: {}", path_.string(), errno_text());
      fd_ = UniqueFd();
      return result;
    }
    size_ += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> FileWriter::write(std::string_view text) { return write(as_bytes(text)); }

Result<void> FileWriter::finish() {
  if (!fd_) return failure("[file] expected {} to be open, got a file that failed or was finished", path_.string());
  UniqueFd fd = std::move(fd_);
  if (::fsync(fd.get()) != 0) return failure("[file] expected to sync {}, got: {}", path_.string(), errno_text());
  if (::close(fd.release()) != 0) return failure("[file] expected to close {}, got: {}", path_.string(), errno_text());
  return {};
}

Result<void> sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path name = folder.empty() ? "." : folder;
  UniqueFd fd(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return failure("[file] expected to open the folder {}, got: {}", name.string(), errno_text());
  if (::fsync(fd.get()) != 0)
    return failure("[file] expected to sync the folder {}, got: {}", name.string(), errno_text());
  return {};
}

TemporaryFile::TemporaryFile(std::filesystem::path final_path) : final_path_(std::move(final_path)) {
  path_ = final_path_.string() + temporary_suffix();  // writers of one file stay apart; the last one wins
  ::unlink(path_.c_str());                            // leftover of a killed process with the same pid
}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

Result<void> TemporaryFile::publish() {
  if (std::rename(path_.c_str(), final_path_.c_str()) != 0) {
    return failure("[file] expected to rename {} to {}, got: {}", path_.string(), final_path_.string(), errno_text());
  }
  path_.clear();
  return sync_folder(final_path_.parent_path());
}

Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  TemporaryFile temporary(path);
  auto file = FileWriter::create(temporary.path());
  if (!file) return file.failure();
  if (auto result = file->write(text); !result) return result;
  if (auto result = file->finish(); !result) return result;
  return temporary.publish();
}

Result<std::string> read_file(const std::filesystem::path& path, std::size_t most) {
  auto fd = open_for_reading(path);
  if (!fd) return fd.failure();
  return read_file(*fd, path.string(), most);
}

Result<std::string> read_file(const UniqueFd& fd, const std::string& name, std::size_t most) {
  auto size = size_of_regular(fd, name);
  if (!size) return size.failure();
  if (*size > most) return failure("[file] expected at most {} bytes in {}, got {}", most, name, *size);
  std::string text(*size, '\0');
  for (std::size_t filled = 0;;) {
    if (filled == text.size()) text.resize(filled + kBeyondSize);
    const ssize_t got = ::read(fd.get(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure("[file] expected to read {}, got: {}", name, errno_text());
    filled += static_cast<std::size_t>(got);
    if (filled > most) return failure("[file] expected at most {} bytes in {}, got more", most, name);
    if (got > 0) continue;
    text.resize(filled);
    return text;
  }
}

}  // namespace starling
