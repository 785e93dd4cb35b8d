#include "starling/train/monitor/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace starling::train {

Result<AppendFile> AppendFile::open(const std::filesystem::path& path, std::uint64_t keep) {
  if (path.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    if (error) return failure("[monitor] expected to create {}, got: {}", path.parent_path().string(), error.message());
  }
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return failure("[monitor] expected to open {}, got: {}", path.string(), errno_text());
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return failure("[monitor] expected {}, got: {}", path.string(), errno_text());
  if (!S_ISREG(info.st_mode)) return failure("[monitor] expected a regular file, got {}", path.string());
  const auto size = std::min<std::uint64_t>(static_cast<std::uint64_t>(info.st_size), keep);
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    return failure("[monitor] expected to cut {} to {} bytes, got: {}", path.string(), size, errno_text());
  return AppendFile(std::move(fd), path, size);
}

Result<void> AppendFile::append(std::string_view record) {
  std::size_t done = 0;
  while (done < record.size()) {
    const ssize_t written =
        ::pwrite(fd_.get(), record.data() + done, record.size() - done, static_cast<off_t>(size_ + done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      auto result = failure("[monitor] expected to write {}, got: {}", path_.string(),
                            written < 0 ? errno_text() : "nothing written");
      // Removes a partial record, which would hide those after it; if truncating fails, the next record overwrites it.
      [[maybe_unused]] const int cut = ::ftruncate(fd_.get(), static_cast<off_t>(size_));
      return result;
    }
    done += static_cast<std::size_t>(written);
  }
  size_ += record.size();
  return {};
}

}  // namespace starling::train
