#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "starling/base/file/file.h"
#include "starling/dist/launch/store/store.h"

namespace starling {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBytes = 16 << 20;

// File name of a key: keys may contain anything, file names only letters, digits and a few marks.
std::string file_name(std::string_view key) {
  std::string name = "v-";
  for (const char c : key) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    name += plain ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  return name;
}

class FileStore final : public Store {
 public:
  explicit FileStore(std::string folder) : folder_(std::move(folder)) {
    std::error_code error;
    fs::create_directories(folder_, error);
    check(!error, "[store] could not make the folder {}: {}", folder_.string(), error.message());
  }

  // Written to a temporary file and linked into place: a reader sees nothing or all of it, and the first writer wins.
  void set(std::string_view key, std::string_view value) override {
    const fs::path place = folder_ / file_name(key);
    static std::atomic<unsigned> serial{0};
    const fs::path made = folder_ / fmt::format("t-{}-{}", ::getpid(), serial.fetch_add(1));
    write(made, value);
    const int linked = ::link(made.c_str(), place.c_str());
    const int error = errno;
    ::unlink(made.c_str());
    if (linked == 0) return;
    errno = error;
    check(error == EEXIST, "[store] could not write {}: {}", place.string(), errno_text());
    if (read_file(place, kMostBytes).value() != value) fail_rewritten(key);
  }

  std::string get(std::string_view key, std::chrono::milliseconds deadline) override {
    const fs::path place = folder_ / file_name(key);
    const auto end = Clock::now() + deadline;
    for (auto pause = std::chrono::milliseconds(1);; pause = std::min(pause * 2, std::chrono::milliseconds(20))) {
      if (fs::exists(place)) return read_file(place, kMostBytes).value();
      if (Clock::now() >= end) fail_late(key, deadline, fmt::format("into the folder {}", folder_.string()));
      std::this_thread::sleep_for(pause);
    }
  }

 private:
  static void write(const fs::path& path, std::string_view value) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    check(static_cast<bool>(fd), "[store] could not make {}: {}", path.string(), errno_text());
    while (!value.empty()) {
      const ssize_t written = ::write(fd.get(), value.data(), value.size());
      if (written < 0 && errno == EINTR) continue;
      check(written > 0, "[store] could not write {}: {}", path.string(), errno_text());
      value.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  fs::path folder_;
};

}  // namespace

std::shared_ptr<Store> make_file_store(std::string folder) { return std::make_shared<FileStore>(std::move(folder)); }

}  // namespace starling
