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
  const auto planned = [](const std::string& text) {  // bytes of state, which a layout splits
    const auto at = text.find(" by plan: ");
    return at == std::string::npos ? 0 : std::stoll(text.substr(at + std::string(" by plan: ").size()));
  };
  EXPECT_GT(planned(split.out), 0) << split.out;
  EXPECT_LT(planned(split.out), planned(whole.out));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_TRUE(has(whole.out, "whole") && !has(whole.out, "along model") && has(whole.out, "all_reduce along data"))
      << whole.out;
  EXPECT_EQ(run_starling("inspect layout " + job() + " --rank 9").code, 2);
  EXPECT_EQ(run_starling("inspect layout " + job() + " --set 'distribute={workers: 2, strategy: local_sgd}'").code, 2);
}

constexpr const char* kFeature = " --set 'distribute={mesh: {data: 2, model: 2}, layout: singa_feature}'";

// Every parameter and activation, what is exchanged and why, and what takes whole operands.
TEST_F(CliInspectJob, ShowsActivationsExchangesAndWhatFallsBackToWhole) {
  const auto ran = run_starling("inspect layout " + job() + kFeature);
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"mesh data 2 x model 2", "fc1.weight", "values of the forward pass",
                           "model: dimension 1, data: dimension 0", "pieces to whole, for linear in fc2",
                           "terms to whole", "forward", "backward", "sent", "0 ops take whole operands"})
    EXPECT_TRUE(has(ran.out, part)) << part << "\n" << ran.out;
  const auto lenet = run_starling("inspect layout " + job() + kFeature + " --set model.name=lenet");
  ASSERT_EQ(lenet.code, 0) << lenet.err;
  EXPECT_TRUE(has(lenet.out, "conv2d") && has(lenet.out, "S0 along model")) << lenet.out;
  EXPECT_FALSE(has(lenet.out, "0 ops take whole operands\n"));
}

TEST_F(CliInspectJob, DrawsTheLayoutAsAPicture) {
  const auto file = folder_.path() / "layout.svg";
  const auto ran = run_starling("inspect layout " + job() + kFeature + " -o " + quoted(file));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string svg = testing::file_text(file);
  for (const char* part : {"<svg", "</svg>", "fc1", "model: dimension 0", "all_gather"})
    EXPECT_TRUE(has(svg, part)) << part;
}

// The program of one rank: local shapes and what it exchanges. Control: without a rank it is that of one process.
TEST_F(CliInspectJob, ShowsTheProgramOfARank) {
  const std::string at = "inspect graph " + job() + kFeature + " --stage after:partition";
  const auto alone = run_starling(at), rank = run_starling(at + " --rank 3"),
             last = run_starling("inspect graph " + job() + kFeature + " --rank 3");
  ASSERT_EQ(rank.code, 0) << rank.err;
  EXPECT_TRUE(has(rank.out, "all_gather") && has(rank.out, "group=\"model\"") && has(rank.out, "group=\"data\""))
      << rank.out;
  EXPECT_TRUE(has(rank.out, "rank=1") && has(rank.out, "input {shape=[10, ")) << rank.out;
  EXPECT_FALSE(has(alone.out, "all_gather")) << alone.out;
  EXPECT_TRUE(has(last.out, "lane=comm")) << last.err;
  EXPECT_EQ(run_starling(at + " --rank 4").code, 2);
  EXPECT_EQ(run_starling("inspect graph lenet --rank 0").code, 2);
  EXPECT_EQ(run_starling("inspect graph " + job() + " --set distribute.strategy=local_sgd --rank 0").code, 2);
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
  const char* two = "{\"fc1\": {model: columns}, \"fc*\": {model: rows}}";
  EXPECT_TRUE(has(told(two), "one layout of 'fc1.weight' along model, got columns by 'fc1' and rows by 'fc*'"))
      << told(two);
  // The same words are said before the first step.
  const auto ran = train("--set 'distribute={mesh: {model: 2}, layout: " + std::string(two) + "}'");
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_TRUE(has(ran.err, "one layout of 'fc1.weight' along model")) << ran.err;
  EXPECT_FALSE(has(ran.out, "step ")) << ran.out;
}

TEST_F(CliInspectJob, AStrategyThatKnowsNoLayoutsRefusesOne) {
  for (const char* strategy : {"local_sgd", "async, servers: 1", "ssp, servers: 1"}) {
    for (const char* command : {"validate ", "train "}) {
      const auto ran = run_starling(command + job() + " --set 'distribute={workers: 2, strategy: " + strategy +
                                    ", layout: singa_feature}'");
      EXPECT_EQ(ran.code, 2) << strategy << ran.out;
      EXPECT_TRUE(has(ran.err, "layout") && has(ran.err, "expected")) << strategy << ran.err;
    }
  }
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
