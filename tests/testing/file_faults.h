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
inline bool syncs = true;           // false: syncs count and may fail, but do not wait for the disk
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
  return ::syscall(SYS_write, fd, data, size);
}
int fsync(int fd) {
  if (starling::testing::fails(true)) return -1;
  return starling::testing::syncs ? static_cast<int>(::syscall(SYS_fsync, fd)) : 0;
}
int rename(const char* from, const char* to) {
  if (starling::testing::fails(false)) return -1;
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned int flags) {
  if (starling::testing::fails(false)) return -1;
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}
int mkdir(const char* path, mode_t mode) {
  if (starling::testing::fails(true)) return -1;
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int unlinkat(int folder, const char* path, int flags) {
  if (starling::testing::fails(false)) return -1;
  return static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
}

}  // extern "C"
