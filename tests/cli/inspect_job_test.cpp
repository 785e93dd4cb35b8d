#include "cli/tiny_job.h"
#include "starling/data/formats/image.h"
#include "starling/train/monitor/picture.h"

namespace starling {
namespace {

using testing::has;
using testing::run_starling;

class CliInspectJob : public testing::TinyJob {
 protected:
  CliInspectJob() : TinyJob("cli-inspect-job") {}
};

TEST_F(CliInspectJob, ShowsTheLayersOfItsNetwork) {
  const auto ran = run_starling("inspect model " + job() + " --batch 2");
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"layer", "parameters", "FLOPs", "Linear", "[2, 10]", "total"})
    EXPECT_TRUE(has(ran.out, part)) << part << "\n" << ran.out;
  EXPECT_EQ(run_starling("inspect model " + job() + " --set model.name=nothing").code, 2);
}

TEST_F(CliInspectJob, ShowsTheGraphOfItsStep) {
  const auto train = run_starling("inspect graph " + job() + " --stage traced");
  ASSERT_EQ(train.code, 0) << train.err;
  EXPECT_TRUE(has(train.out, "cross_entropy_backward") && has(train.out, "assign") && has(train.out, "f32[20, "))
      << train.out;
  const auto forward = run_starling("inspect graph " + job() + " --phase forward --batch 3");
  EXPECT_EQ(forward.code, 0) << forward.err;
  EXPECT_TRUE(!has(forward.out, "assign") && !has(forward.out, "i64") && has(forward.out, "f32[3, ")) << forward.out;
}

TEST_F(CliInspectJob, ShowsHowItsParametersLieOnAMesh) {
  const auto split = run_starling("inspect layout " + job() +
                                  " --rank 1 --set 'distribute={mesh: {model: 2}, layout: singa_feature}'");
  ASSERT_EQ(split.code, 0) << split.err;
  for (const char* part : {"mesh data 1 x model 2", "model: dimension 0", "along model:", " for "})
    EXPECT_TRUE(has(split.out, part)) << part << "\n" << split.out;
  const auto whole = run_starling("inspect layout " + job() + " --set 'distribute={workers: 2}'");
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_TRUE(has(whole.out, "whole") && !has(whole.out, "along model") && has(whole.out, "all_reduce along data"))
      << whole.out;
  EXPECT_EQ(run_starling("inspect layout " + job() + " --rank 9").code, 2);
  EXPECT_EQ(run_starling("inspect layout " + job() + " --set 'distribute={workers: 2, strategy: local_sgd}'").code, 2);
}

TEST_F(CliInspectJob, ALayoutThatDoesNotFitItsNetworkIsRefused) {
  const auto told = [&](const std::string& layout) {
    const auto ran =
        run_starling("validate " + job() + " --set 'distribute={mesh: {model: 2}, layout: " + layout + "}'");
    EXPECT_EQ(ran.code, 2) << ran.out;
    return ran.err;
  };
  EXPECT_TRUE(has(told("{nothing: {model: columns}}"), "matches none of"));
  EXPECT_TRUE(has(told("{\"*\": {modle: columns}}"), "expected an axis of the mesh"));
}

TEST_F(CliInspectJob, DataMayBeATableOrAFolderInstead) {
  const auto file = folder_.path() / "table.csv";
  std::ofstream(file) << "size,town\n10,Ulm\n30,Ulm\n,Bonn\n";
  const auto table = run_starling("inspect data " + quoted(file));
  ASSERT_EQ(table.code, 0) << table.err;
  for (const char* part : {"numbers", "10 to 30, mean 20", "words", "Ulm (2), Bonn (1)", "3 rows of 2 columns"})
    EXPECT_TRUE(has(table.out, part)) << part << "\n" << table.out;
  EXPECT_TRUE(has(run_starling("inspect data " + quoted(file) + " --limit 2").out, "2 rows"));
  const auto folder = run_starling("inspect data " + quoted(folder_.path()));
  ASSERT_EQ(folder.code, 0) << folder.err;
  EXPECT_TRUE(has(folder.out, "1 other files .csv")) << folder.out;
}

TEST_F(CliInspectJob, DataMayBePicturesInFoldersOfTheirClasses) {
  if (!data::has_png()) GTEST_SKIP() << "this build reads no PNG";
  const auto pictures = folder_.path() / "pictures";
  std::filesystem::create_directories(pictures / "cats");
  std::filesystem::create_directories(pictures / "dogs");
  const std::string png =
      train::to_png({.width = 6, .height = 4, .channels = 1, .pixels = std::vector<std::uint8_t>(24)});
  for (const char* name : {"cats/a.png", "dogs/b.png", "dogs/c.png"})
    std::ofstream(pictures / name, std::ios::binary) << png;
  std::ofstream(pictures / "dogs" / "d.png") << "no picture";
  const auto ran = run_starling("inspect data " + quoted(pictures));
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"cats           1", "dogs           3", "4 pictures", "6 × 4 (3)", "not readable: [image]"})
    EXPECT_TRUE(has(ran.out, part)) << part << "\n" << ran.out;
}

}  // namespace
}  // namespace starling
