#include "starling/base/file/file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include "starling/base/file/folder.h"
#include "starling/base/file/mapped_guard.h"
#include "starling/base/file/safe_path.h"
#include "testing/temporary_folder.h"

namespace starling {
namespace {

namespace fs = std::filesystem;
using testing::read_text;
using testing::write_text;

TEST(Hash, IsXxh3AndDoesNotDependOnHowTheBytesAreCut) {
  Hash128 empty;
  EXPECT_EQ(empty.hex(), "99aa06d3014798d86001c324468d497f");
  Hash128 whole;
  whole.update(std::string_view("starlings"));
  Hash128 parts;
  parts.update(std::string_view("star"));
  parts.update(std::string_view("lings"));
  EXPECT_EQ(whole.hex(), parts.hex());
  EXPECT_NE(whole.hex(), empty.hex());
}

TEST(FileWriter, KeepsSizeAndChecksumOfWhatItWrote) {
  const testing::TemporaryFolder folder;
  auto file = FileWriter::create(folder / "a").value();
  file.write("hello ").value();
  file.write("world").value();
  file.finish().value();
  EXPECT_EQ(read_text(folder / "a"), "hello world");
  EXPECT_EQ(file.size(), 11U);
  Hash128 hash;
  hash.update(std::string_view("hello world"));
  EXPECT_EQ(file.checksum(), hash.hex());
}

TEST(FileWriter, RefusesAnExistingFileAndWritingAfterTheEnd) {
  const testing::TemporaryFolder folder;
  auto file = FileWriter::create(folder / "a").value();
  file.finish().value();
  EXPECT_FALSE(file.write("x"));
  EXPECT_FALSE(file.finish());
  EXPECT_FALSE(FileWriter::create(folder / "a"));
}

TEST(WriteFileAtomically, ReplacesTheWholeFileAndLeavesNothingElse) {
  const testing::TemporaryFolder folder;
  write_file_atomically(folder / "a", "a long first text").value();
  write_file_atomically(folder / "a", "second").value();
  EXPECT_EQ(read_text(folder / "a"), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  EXPECT_FALSE(write_file_atomically(folder / "no/such", "x"));
}

TEST(MappedFile, ShowsTheBytesEvenAfterTheNameIsGone) {
  const testing::TemporaryFolder folder;
  write_text(folder / "a", "bytes");
  const auto file = MappedFile::map(folder / "a").value();
  fs::remove(folder / "a");
  ASSERT_EQ(file->bytes().size(), 5U);
  EXPECT_EQ(file->bytes()[4], std::byte{'s'});
}

TEST(MappedFile, ThatIsCutOffIsToldInsteadOfEndingTheProcess) {
  const testing::TemporaryFolder folder;
  const std::string kept = (folder / "kept").string(), cut = (folder / "cut").string();
  write_text(kept, std::string(5 * 4096, 'x'));
  write_text(cut, std::string(5 * 4096, 'x'));
  const auto sound = MappedFile::map(kept).value();
  {
    const auto file = MappedFile::map(cut).value();
    ASSERT_EQ(::truncate(cut.c_str(), 4096), 0);
    check_mapped(file->bytes().data());
    EXPECT_EQ(file->bytes()[100], std::byte{'x'});
    EXPECT_EQ(file->bytes()[3 * 4096 + 7], std::byte{0});
    EXPECT_EQ(file->bytes()[5 * 4096 - 1], std::byte{0});
    for (const std::size_t at : {0, 5 * 4096 - 1}) {
      const std::string error = testing::error_of([&] { check_mapped(&file->bytes()[at]); });
      EXPECT_NE(error.find("expected " + cut + " to stay as it was"), std::string::npos) << error;
    }
    EXPECT_EQ(sound->bytes()[5 * 4096 - 1], std::byte{'x'});
    check_mapped(sound->bytes().data());  // readers of other files, and of memory, go on
    check_mapped(&cut);
    check_mapped(nullptr);
  }
  check_mapped(sound->bytes().data());
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // sanitizers handle bus errors themselves: they report, and exit
#else
constexpr bool kSanitized = false;
#endif

TEST(MappedFile, LeavesOtherBusErrorsToTheProcess) {
  if (kSanitized) GTEST_SKIP();
  EXPECT_EXIT(
      {
        const testing::TemporaryFolder folder;
        write_text(folder / "a", "bytes");
        const auto file = MappedFile::map(folder / "a").value();
        ::raise(SIGBUS);
        ::raise(SIGBUS);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST(MakeFolders, MakesAllParentsAndRefusesWhatIsNoFolder) {
  const testing::TemporaryFolder folder;
  make_folders(folder / "a/b/c/").value();
  make_folders(folder / "a/b/c").value();
  EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
  write_text(folder / "a/file", "");
  EXPECT_NE(make_folders(folder / "a/file").error(), "");
  EXPECT_NE(make_folders(folder / "a/file/b").error(), "");
}

TEST(TemporaryFolder, TwoForOnePlaceStayApartAndTheLastWins) {
  const testing::TemporaryFolder folder;
  {
    auto first = TemporaryFolder::create(folder / "a").value(), second = TemporaryFolder::create(folder / "a").value();
    EXPECT_NE(first.path(), second.path());
    write_file_atomically(first.path() / "x", "first").value();
    write_file_atomically(second.path() / "x", "second").value();
    first.publish().value();
    second.publish().value();
  }
  EXPECT_EQ(read_text(folder / "a/x"), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(MappedFile, TakesEmptyFilesAndRefusesFolders) {
  const testing::TemporaryFolder folder;
  write_text(folder / "a", "");
  EXPECT_TRUE(MappedFile::map(folder / "a").value()->bytes().empty());
  EXPECT_FALSE(MappedFile::map(folder.path()));
  EXPECT_NE(MappedFile::map(folder / "b").error().find("b"), std::string::npos);
}

TEST(ReadFile, RefusesMoreThanTheLimit) {
  const testing::TemporaryFolder folder;
  write_text(folder / "a", "12345");
  EXPECT_EQ(read_file(folder / "a", 5).value(), "12345");
  EXPECT_FALSE(read_file(folder / "a", 4));
}

TEST(ReadFile, ReadsToTheEndWhateverTheSizeSays) {
  const fs::path file = "/proc/sys/kernel/random/boot_id";
  ASSERT_EQ(fs::file_size(file), 0);
  EXPECT_EQ(read_file(file, 100).value(), read_text(file));
  EXPECT_EQ(read_file(file, 100).value().size(), 37);
  EXPECT_FALSE(read_file(file, 36));
}

TEST(OpenBeneath, OpensPlainFilesInTheFolder) {
  const testing::TemporaryFolder folder;
  fs::create_directories(folder / "sub");
  write_text(folder / "sub/a", "x");
  EXPECT_TRUE(open_beneath(folder.path(), "sub/a"));
}

TEST(OpenBeneath, RefusesEverythingThatLeadsElsewhere) {
  const testing::TemporaryFolder folder;
  const testing::TemporaryFolder other;
  fs::create_directories(folder / "sub");
  write_text(other / "secret", "x");
  write_text(folder / "twice", "x");
  fs::create_symlink(other / "secret", folder / "link");
  fs::create_directory_symlink(other.path(), folder / "linked");
  fs::create_hard_link(folder / "twice", folder / "again");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const std::string up = "../" + other.path().filename().string() + "/secret";
  const std::string names[] = {up,
                               (other / "secret").string(),
                               "link",
                               "linked/secret",
                               "again",
                               "pipe",
                               "sub",
                               "",
                               ".",
                               "..",
                               "sub/",
                               "/",
                               "sub//",
                               "none",
                               {"twice\0x", 7},
                               "sub/../twice"};
  for (const auto& name : names) EXPECT_FALSE(open_beneath(folder.path(), name)) << name;
}

}  // namespace
}  // namespace starling
