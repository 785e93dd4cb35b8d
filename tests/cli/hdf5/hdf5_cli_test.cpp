#include <gtest/gtest.h>

#include "cli/program.h"
#include "data/formats/hdf5/hdf5_writer.h"

namespace starling {
namespace {

using testing::Hdf5Writer;
using testing::run_starling_in;

class CliHdf5 : public ::testing::Test {
 protected:
  void SetUp() override {
    const Hdf5Writer file(folder_.path() / "digits.h5");
    std::vector<double> x, y;
    for (int i = 0; i < 40; ++i) {
      y.push_back(i % 2);
      for (int j = 0; j < 6; ++j) x.push_back(i % 2 == 0 ? j : 5 - j);
    }
    file.add("train/x", H5T_IEEE_F64LE, {40, 6}, x, {.chunk = {8, 6}, .compress = true});
    file.add("train/y", H5T_STD_I32LE, {40}, y);
    file.add_text("names", {"up", "down"});
    std::ofstream(folder_.path() / "job.yaml")
        << "data: {name: hdf5, file: digits.h5, train: [train/x, train/y], class_names: [up, down], batch: 8, "
           "split: {test: 0.2, seed: 1}}\n"
           "model: {name: mlp, hidden: [8]}\noptimizer: {name: adam, lr: 0.05}\n"
           "train: {epochs: 8, folder: runs/digits}\n";
  }
  testing::Ran run(const std::string& arguments) const { return run_starling_in(folder_.path(), arguments); }

  testing::TestFolder folder_{"cli-hdf5"};
};

TEST_F(CliHdf5, AFileIsTrainedWithAndPredicted) {
  const auto trained = run("train job.yaml --progress off");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto named = run("predict runs/digits digits.h5:train/x --top 1"),
             found = run("predict runs/digits digits.h5 --top 1");
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_NE(named.out.find("digits.h5:train/x[0]: up"), std::string::npos) << named.out;
  EXPECT_NE(named.out.find("digits.h5:train/x[1]: down"), std::string::npos) << named.out;
  EXPECT_NE(found.out.find("digits.h5[39]: down"), std::string::npos) << found.out << found.err;
  const auto wrong = run("predict runs/digits digits.h5:train/z");
  EXPECT_NE(wrong.code, 0);
  EXPECT_NE(wrong.err.find("train/x"), std::string::npos) << wrong.err;
  {
    const Hdf5Writer other(folder_.path() / "other.h5");
    other.add("a", H5T_IEEE_F32LE, {2, 6}, std::vector<double>(12));
    other.add("b", H5T_IEEE_F32LE, {2, 6}, std::vector<double>(12));
    const Hdf5Writer none(folder_.path() / "none.h5");
    none.add("a", H5T_IEEE_F32LE, {2, 5}, std::vector<double>(10));
  }
  EXPECT_NE(run("predict runs/digits other.h5").err.find("got a, b: name one, as in other.h5:a"), std::string::npos);
  EXPECT_NE(run("predict runs/digits none.h5").err.find("got a (f32[2, 5])"), std::string::npos);
}

TEST_F(CliHdf5, InspectListsArraysAndTheirStatistics) {
  const auto listed = run("inspect data digits.h5");
  EXPECT_EQ(listed.out, "names: text\ntrain/x: 40 of f64[6]\ntrain/y: 40 of i32[]\n") << listed.err;
  const auto stats = run("inspect data digits.h5 --stats");
  EXPECT_EQ(stats.code, 0) << stats.err;
  EXPECT_NE(stats.out.find("2.5"), std::string::npos) << stats.out;
}

TEST_F(CliHdf5, ADamagedFileIsAnErrorThatNamesIt) {
  std::filesystem::resize_file(folder_.path() / "digits.h5", 1000);
  for (const char* command : {"inspect data digits.h5", "train job.yaml --progress off"}) {
    const auto ran = run(command);
    EXPECT_GT(ran.code, 0) << command;
    EXPECT_LT(ran.code, 128) << command;
    EXPECT_NE(ran.err.find("digits.h5: expected an HDF5 file that is whole"), std::string::npos) << ran.err;
  }
}

TEST_F(CliHdf5, DoctorSaysThatItIsThere) { EXPECT_NE(run("doctor").out.find("PNG, HDF5, "), std::string::npos); }

}  // namespace
}  // namespace starling
