#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "data/formats/hdf5/hdf5_writer.h"
#include "starling/base/error.h"
#include "starling/data/formats/hdf5.h"
#include "starling/data/formats/hdf5/library.h"
#include "starling/data/formats/hdf5/rehearsal.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::Hdf5Writer;
using testing::read_text;
using testing::TemporaryFolder;
using testing::write_text;

// Lists a file and reads what it lists.
void read_all(const std::filesystem::path& path) {
  for (const auto& entry : list_hdf5(path)) {
    if (entry.type && entry.type->shape.rank() > 0) read_hdf5(path, entry.name, {.most_bytes = 1 << 20});
  }
}

std::string whole_file(const TemporaryFolder& folder) {
  {
    const Hdf5Writer file(folder / "whole.h5");
    file.add("x", H5T_IEEE_F32LE, {10, 3}, std::vector<double>(30, 1.5));
    file.add("train/x", H5T_IEEE_F64BE, {10, 3}, std::vector<double>(30, 2.5), {.chunk = {4, 3}, .compress = true});
    file.add_text("names", {"cat", "dog"});
  }
  return read_text(folder / "whole.h5");
}

// Bytes that differ one by one from those of a whole file; how many were refused. Any crash ends the test.
int refusals(const TemporaryFolder& folder, const std::string& whole, std::size_t step) {
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); at += step) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(~bytes[at]);
    write_text(folder / "damaged.h5", bytes);
    try {
      read_all(folder / "damaged.h5");
    } catch (const Error&) {
      ++refused;
    }
  }
  return refused;
}

TEST(DamagedHdf5, EveryEarlyEndIsRefused) {
  const TemporaryFolder folder;
  const std::string whole = whole_file(folder);
  read_all(folder / "whole.h5");
  for (std::size_t size = 0; size < whole.size(); size += 397) {
    write_text(folder / "short.h5", whole.substr(0, size));
    EXPECT_THROW(read_all(folder / "short.h5"), Error) << size;
  }
}

// Every 69th byte: the one at 4416 is a size of chunks that makes libhdf5 1.10.8 read behind the chunk it has unpacked.
// STARLING_HDF5_EVERY_BYTE=1 damages each byte in turn, which takes minutes.
TEST(DamagedHdf5, ADamagedByteIsAnErrorOrIsReadButNeverACrash) {
  const TemporaryFolder folder;
  const std::string whole = whole_file(folder);
  EXPECT_GT(refusals(folder, whole, std::getenv("STARLING_HDF5_EVERY_BYTE") != nullptr ? 1 : 69), 5);
}

TEST(DamagedHdf5, AFileThatCrashesOrLoopsIsAnErrorHere) {
  const Hdf5Library library;
  const auto told = [](FunctionRef<void()> work, std::chrono::seconds deadline) {
    return testing::error_of([&] { rehearse("a.h5", work, deadline); });
  };
  EXPECT_EQ(told([] {}, kRehearsal), "");
  EXPECT_EQ(told([] { fail("[hdf5] thrown by work"); }, kRehearsal), "[hdf5] thrown by work");
  EXPECT_NE(told([] { std::raise(SIGSEGV); }, kRehearsal).find("a.h5: expected"), std::string::npos);
  EXPECT_NE(told([] { std::abort(); }, kRehearsal).find("crashes libhdf5"), std::string::npos);
  EXPECT_NE(told(
                [] {
                  while (std::getenv("PATH") != std::getenv("HOME")) std::raise(0);
                },
                std::chrono::seconds(1))
                .find("does not end"),
            std::string::npos);
}

}  // namespace
}  // namespace starling::data
