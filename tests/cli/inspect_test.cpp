#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "starling/graph/export/record_file.h"
#include "starling/graph/export/tensorboard.h"
#include "starling/graph/parser.h"

namespace starling {
namespace {

using testing::file_text;
using testing::has;
using testing::run_starling;

TEST(CliInspect, PrintsTextThatLoadsBackAtEveryStage) {
  const auto nodes = [](const std::string& stage) {
    const auto ran = run_starling("inspect graph --net sae_small --batch 2 --stage " + stage);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return graph::parse_graph(ran.out).size();
  };
  EXPECT_GT(nodes("traced"), nodes("final"));
  EXPECT_GE(nodes("traced"), nodes("after:prune"));
}

TEST(CliInspect, TheFinalStageShowsWhatALargeProgramComputesAgain) {
  const auto nodes = [](const std::string& stage) {
    const auto ran = run_starling("inspect graph resnet18 --batch 64 --stage " + stage);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return graph::parse_graph(ran.out).size();
  };
  EXPECT_GT(nodes("final"), nodes("after:schedule"));
}

TEST(CliInspect, WritesDotSvgAndTensorBoardFiles) {
  const testing::TestFolder folder("cli-inspect");
  const auto write = [&](const std::string& format, const std::string& out) {
    const auto ran = run_starling("inspect graph lenet --batch 2 --format " + format + " -o '" +
                                  (folder.path() / out).string() + "'");
    EXPECT_EQ(ran.code, 0) << ran.err;
    const std::string name = ran.out.substr(0, ran.out.find('\n'));
    return file_text(name);
  };
  EXPECT_EQ(write("dot", "g.dot").find("digraph"), 0U);
  EXPECT_TRUE(has(write("svg --layout own", "g.svg"), "conv2d_backward_weight"));
  EXPECT_TRUE(has(write("svg", "h.svg"), "</svg>"));  // by Graphviz or not
  if (graph::has_tensorboard_export()) {
    EXPECT_EQ(graph::read_records(write("tensorboard", "run")).size(), 2U);
  }
}

TEST(CliInspect, FindsTheSeparatorOfAPackedTable) {
  const testing::TestFolder folder("cli-inspect-gz");
  const std::string rows = "printf 'size\\tkind, of fruit\\tage\\n1\\tapple\\t3\\n2\\tplum\\t4\\n'";
  const auto ran = testing::run_shell_in(folder.path(), rows + " | gzip > t.csv.gz && starling inspect data t.csv.gz");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "2 rows of 3 columns")) << ran.out;
}

TEST(CliInspect, RefusesAnUnknownStageAndFormatByName) {
  const auto stage = run_starling("inspect graph lenet --stage after:fused");
  EXPECT_EQ(stage.code, 2);
  EXPECT_TRUE(has(stage.err, "after:fuse")) << stage.err;
  EXPECT_EQ(run_starling("inspect graph lenet --format png").code, 2);
  EXPECT_EQ(run_starling("inspect graph lenett").code, 2);
  EXPECT_EQ(run_starling("inspect").code, 2);
}

TEST(CliInspect, SummarisesFilesOfArrays) {
  const testing::TestFolder folder("cli-inspect-data");
  testing::write_tiny_fashion(folder.path(), 40, 10);
  const std::string labels = "'" + (folder.path() / "train-labels-idx1-ubyte").string() + "'";
  const auto names = run_starling("inspect data " + labels);
  EXPECT_EQ(names.out, "train-labels-idx1-ubyte: 40 of u8[]\n") << names.err;
  const auto stats = run_starling("inspect data " + labels + " --stats");
  EXPECT_EQ(stats.code, 0) << stats.err;
  for (const char* part : {"u8[]", "4.5", "2.8723", "10 different values", "10.0 %"})
    EXPECT_TRUE(has(stats.out, part)) << part << "\n" << stats.out;
  const auto few = run_starling("inspect data " + labels + " --stats --limit 4");
  EXPECT_TRUE(has(few.out, "1 different values")) << few.out;  // the samples 0, 10, 20, 30 are of class 0
  EXPECT_EQ(run_starling("inspect data /nowhere.idx").code, 2);
  const auto unknown = run_starling("inspect data '" + testing::program_path().string() + "'");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(has(unknown.err, ".safetensors")) << unknown.err;
}

TEST(CliVerify, PassesAHealthyNetworkAndListsGradientsAndUpdates) {
  const auto ran = run_starling("verify sae_small --batch 2 --threads 1");
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  for (const char* part :
       {"grad fc1.weight", "fc1.weight.velocity", "compiled-eager", "eager-fp64", "tolerance 1.0e-05"})
    EXPECT_TRUE(has(ran.out, part)) << part << "\n" << ran.out;
  EXPECT_FALSE(has(ran.out, "NOT OK")) << ran.out;
}

TEST(CliVerify, TakesAJobWithItsDataAndRefusesOneThatIsWrong) {
  const testing::TestFolder folder("cli-verify");
  testing::write_tiny_fashion(folder.path(), 40, 10);
  const auto job = folder.path() / "job.yaml";
  std::ofstream(job) << "model: {name: lenet}\ndata: {folder: '" << folder.path().string()
                     << "', batch: 4}\ntrain: {folder: '" << (folder.path() / "run").string() << "'}\n";
  const auto ran = run_starling("verify '" + job.string() + "' --threads 1");
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_TRUE(has(ran.out, "conv1.weight")) << ran.out;
  EXPECT_EQ(run_starling("verify '" + job.string() + "' --set model.nmae=x").code, 2);
}

TEST(CliBench, ProfilesByOpWritesATraceAndTellsTheMemory) {
  const testing::TestFolder folder("cli-profile");
  const auto file = folder.path() / "trace.json";
  const auto ran =
      run_starling("bench lenet --batch 2 --threads 1 --seconds 0.01 --profile --memory --peak 100 10 --trace '" +
                   file.string() + "'");
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"conv2d", "GFLOP/s", "of peak", "peak 100.0 GFLOP/s", "values alive there"})
    EXPECT_TRUE(has(ran.out, part)) << part << "\n" << ran.out;
  EXPECT_FALSE(nlohmann::json::parse(file_text(file)).at("traceEvents").empty());
  EXPECT_EQ(run_starling("bench lenet --mode eager --profile").code, 2);
}

TEST(CliBench, TellsHowLongEachStageOfCompilingTakes) {
  const auto ran = run_starling("bench lenet --batch 2 --compile-only");
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"compiled in", "trace", "fuse", "schedule", "lower", "verify ms"})
    EXPECT_TRUE(has(ran.out, part)) << part << "\n" << ran.out;
}

}  // namespace
}  // namespace starling
