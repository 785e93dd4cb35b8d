#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>

#include "testing/file_calls.h"

// Fault injection into system calls that change files: the n-th call fails. Include in one file of a test program; its
// definitions override those of the C library, for our code and the C++ library.
namespace starling::testing {

enum class Fault {
  none,
  kill,       // the process ends before the call does anything
  kill_half,  // half of a write reaches the file; other calls as kill
  io_error,   // EIO, once
  full_disk,  // a write that does not fit is cut short; ENOSPC from then on
};

inline Fault armed_fault = Fault::none;
inline std::atomic<long> calls_to_go = 0;
inline std::atomic<bool> fault_happened = false;
inline constexpr int kKilled = 77;  // exit code of a process ended by a fault

inline void arm(Fault fault, long nth) {
  armed_fault = fault;
  calls_to_go = nth;
  fault_happened = false;
}
inline void disarm() { armed_fault = Fault::none; }

// True if this call fails, with errno set. Ends the process if the fault says so.
inline bool fails(bool allocates) {
  if (armed_fault == Fault::none) return false;
  if (armed_fault == Fault::full_disk && fault_happened) {
    errno = ENOSPC;
    return allocates;
  }
  if (--calls_to_go != 0) return false;
  fault_happened = true;
  if (armed_fault == Fault::kill || armed_fault == Fault::kill_half) ::_exit(kKilled);
  errno = armed_fault == Fault::io_error ? EIO : ENOSPC;
  return armed_fault == Fault::io_error || allocates;
}

}  // namespace starling::testing

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  using namespace starling::testing;
  const bool now = armed_fault != Fault::none && calls_to_go == 1 && !fault_happened;
  if (now && (armed_fault == Fault::kill_half || armed_fault == Fault::full_disk) && size > 1) {
    const auto half = ::syscall(SYS_write, fd, data, size / 2);
    if (armed_fault == Fault::kill_half) ::_exit(kKilled);
    fault_happened = true;
    return half;
  }
  if (fails(true)) return -1;
  const auto written = ::syscall(SYS_write, fd, data, size);
  if (written > 0) record_write(fd, data, static_cast<std::size_t>(written));
  return written;
}
int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  const int fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (fd >= 0 && (flags & O_CREAT) != 0)
    starling::testing::record({.kind = starling::testing::FileCall::create, .path = path});
  return fd;
}
int fsync(int fd) {
  if (starling::testing::fails(true)) return -1;
  starling::testing::record_sync(fd);
  return starling::testing::syncs ? static_cast<int>(::syscall(SYS_fsync, fd)) : 0;
}
int rename(const char* from, const char* to) {
  if (starling::testing::fails(false)) return -1;
  const auto status = static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
  if (status == 0) starling::testing::record({.kind = starling::testing::FileCall::move, .path = from, .to = to});
  return status;
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned int flags) {
  if (starling::testing::fails(false)) return -1;
  const auto status = static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  if (status == 0) starling::testing::record({.kind = starling::testing::FileCall::exchange, .path = from, .to = to});
  return status;
}
int mkdir(const char* path, mode_t mode) {
  if (starling::testing::fails(true)) return -1;
  const auto status = static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
  if (status == 0) starling::testing::record({.kind = starling::testing::FileCall::make_folder, .path = path});
  return status;
}
int unlinkat(int folder, const char* path, int flags) {
  if (starling::testing::fails(false)) return -1;
  const std::string whole = folder == AT_FDCWD ? path : starling::testing::path_of(folder) + "/" + path;
  const auto status = static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
  if (status == 0) starling::testing::record({.kind = starling::testing::FileCall::remove, .path = whole});
  return status;
}

}  // extern "C"
