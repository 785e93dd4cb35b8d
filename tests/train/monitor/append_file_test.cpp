#include "starling/train/monitor/append_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "testing/temporary_folder.h"

namespace starling::train {
namespace {

// Limits the file size of this process: writes are cut short, then fail, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST(AppendFile, GrowsByWholeRecordsAndMakesItsFolder) {
  const testing::TemporaryFolder folder;
  auto file = AppendFile::open(folder / "a/b/log").value();
  file.append("one\n").value();
  file.append("two\n").value();
  EXPECT_EQ(file.size(), 8U);
  EXPECT_EQ(testing::read_text(folder / "a/b/log"), "one\ntwo\n");
  auto again = AppendFile::open(folder / "a/b/log").value();
  again.append("three\n").value();
  EXPECT_EQ(testing::read_text(folder / "a/b/log"), "one\ntwo\nthree\n");
}

TEST(AppendFile, KeepsAsManyBytesAsItIsTold) {
  const testing::TemporaryFolder folder;
  testing::write_text(folder / "log", "one\ntwo\nthr");
  auto file = AppendFile::open(folder / "log", 8).value();
  file.append("2\n").value();
  EXPECT_EQ(testing::read_text(folder / "log"), "one\ntwo\n2\n");
}

TEST(AppendFile, LeavesNothingOfARecordThatDoesNotFitAndGoesOnWhenThereIsRoom) {
  const testing::TemporaryFolder folder;
  auto file = AppendFile::open(folder / "log").value();
  file.append("0123456789\n").value();
  {
    const FullDisk full(16);
    const auto failed = file.append("0123456789\n");
    EXPECT_FALSE(failed);
    EXPECT_NE(failed.error().find("log"), std::string::npos) << failed.error();
  }
  EXPECT_EQ(testing::read_text(folder / "log"), "0123456789\n");
  file.append("later\n").value();
  EXPECT_EQ(testing::read_text(folder / "log"), "0123456789\nlater\n");
}

TEST(AppendFile, TellsWhenItCannotBeOpened) {
  const testing::TemporaryFolder folder;
  testing::write_text(folder / "file", "x");
  EXPECT_FALSE(AppendFile::open(folder / "file/below"));
  EXPECT_FALSE(AppendFile::open(folder.path()));
}

}  // namespace
}  // namespace starling::train
