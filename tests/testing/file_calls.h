#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

// Record of the calls by which a program changes files, for models of what a crash leaves (disk_model.h). The calls are
// caught by file_faults.h.
namespace starling::testing {

struct FileCall {
  enum Kind { create, make_folder, write, sync, move, exchange, remove, mark };
  Kind kind = mark;
  std::string path{};
  std::string to{};     // of move and exchange
  std::string bytes{};  // of write; sequential, as checkpoints are written
  long number = 0;      // of mark: anything that a test wants to find again
};

inline bool syncs = true;  // false: syncs count and may fail, but do not wait for the disk
inline std::mutex recording_mutex;
inline std::vector<FileCall>* recorded_calls = nullptr;  // null: nothing is recorded

inline void record(FileCall call) {
  const std::scoped_lock lock(recording_mutex);
  if (recorded_calls != nullptr) recorded_calls->push_back(std::move(call));
}

inline std::string path_of(int fd) {
  std::array<char, 4096> path{};
  const auto size = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path.data(), path.size());
  return size > 0 ? std::string(path.data(), static_cast<std::size_t>(size)) : "";
}

inline void record_write(int fd, const void* data, std::size_t size) {
  if (recorded_calls == nullptr) return;
  record({.kind = FileCall::write, .path = path_of(fd), .bytes = std::string(static_cast<const char*>(data), size)});
}

inline void record_sync(int fd) {
  if (recorded_calls != nullptr) record({.kind = FileCall::sync, .path = path_of(fd)});
}

// The calls that f makes.
template <class F>
std::vector<FileCall> calls_of(F&& f) {
  std::vector<FileCall> calls;
  recorded_calls = &calls;
  f();
  recorded_calls = nullptr;
  return calls;
}

}  // namespace starling::testing
