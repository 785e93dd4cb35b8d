#include "starling/train/run/run_lock.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "starling/base/error.h"
#include "testing/temporary_folder.h"

namespace {

std::atomic<int> lock_error = 0;     // errno of the next calls of flock; 0: they are made
std::atomic<int> locks_to_fail = 0;  // locks that fail before one succeeds
std::atomic<int> locks_asked = 0;

}  // namespace

// Overrides the C library's, also for the code that is tested.
extern "C" int flock(int fd, int operation) {
  ++locks_asked;
  if (lock_error == 0 || locks_to_fail-- <= 0) return static_cast<int>(::syscall(SYS_flock, fd, operation));
  errno = lock_error;
  return -1;
}

namespace starling::train {
namespace {

using starling::testing::error_of;

class RunLockFails : public ::testing::Test {
 protected:
  ~RunLockFails() override { lock_error = 0; }

  void fail_locks(int error, int calls) {
    lock_error = error;
    locks_to_fail = calls;
    locks_asked = 0;
  }

  starling::testing::TemporaryFolder folder_;
};

TEST_F(RunLockFails, AnErrorOfLockingIsNoFreeFolder) {
  for (const int error : {EIO, ENOLCK, EBADF}) {
    fail_locks(error, 1);
    const std::string told = error_of([&] { RunLock lock(folder_.path()); });
    EXPECT_NE(told.find("expected to lock the folder " + folder_.path().string()), std::string::npos) << told;
    EXPECT_NE(told.find(std::generic_category().message(error)), std::string::npos) << told;
    EXPECT_EQ(locks_asked, 1) << "what is no other holder is not waited for";
  }
  EXPECT_NO_THROW(RunLock(folder_.path())) << "a refused lock leaves nothing locked";
}

TEST_F(RunLockFails, AFolderThatCannotBeOpenedIsNotUsedWithoutALock) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string told = error_of([&] { RunLock lock(folder_.path()); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(told.find("expected to open the folder " + folder_.path().string()), std::string::npos) << told;
  EXPECT_NE(told.find(std::generic_category().message(EMFILE)), std::string::npos) << told;
}

TEST_F(RunLockFails, AFolderThatCannotBeMadeIsLeftToThoseWhoWriteInIt) {
  std::ofstream(folder_ / "file") << "no folder";
  EXPECT_NO_THROW(RunLock(folder_ / "file" / "run"));
}

TEST_F(RunLockFails, AFileSystemWithoutLocksIsUsedWithout) {
  for (const int error : {EINVAL, ENOSYS, EOPNOTSUPP}) {
    fail_locks(error, 1);
    EXPECT_NO_THROW(RunLock(folder_.path())) << error;
    EXPECT_EQ(locks_asked, 1);
  }
}

TEST_F(RunLockFails, ASignalDuringTheCallIsNotTakenForALock) {
  fail_locks(EINTR, 3);
  const RunLock lock(folder_.path());
  EXPECT_EQ(locks_asked, 4);
  EXPECT_TRUE(RunLock::held_by_other(folder_.path()));
}

TEST_F(RunLockFails, AHolderThatEndsWithinASecondIsWaitedFor) {
  fail_locks(EWOULDBLOCK, 3);
  EXPECT_NO_THROW(RunLock(folder_.path()));
  EXPECT_EQ(locks_asked, 4);
}

TEST_F(RunLockFails, OnlyARefusalMeansThatARunHoldsTheFolder) {
  fail_locks(EWOULDBLOCK, 1);
  EXPECT_TRUE(RunLock::held_by_other(folder_.path()));
  fail_locks(EIO, 1);
  EXPECT_FALSE(RunLock::held_by_other(folder_.path()));
}

}  // namespace
}  // namespace starling::train
