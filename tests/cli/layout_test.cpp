// Layouts through the program: mistakes that are told before anything starts, and what a layout costs.
#include <gtest/gtest.h>

#include <iterator>
#include <sstream>

#include "cli/tiny_job.h"

namespace starling::testing {
namespace {

class CliLayout : public TinyJob {
 protected:
  CliLayout() : TinyJob("cli-layout") {}

  // A job of a small gpt on a text of its own.
  std::string text_job(int heads, const std::string& distribute) const {
    std::string text;
    for (int i = 0; i < 60; ++i) text += fmt::format("the {}th line of a short text\n", i);
    std::ofstream(folder_.path() / "text.txt") << text;
    std::ofstream(folder_.path() / "gpt.yaml") << fmt::format(
        "model: {{name: gpt, width: {}, depth: 1, heads: {}, tokens: 8}}\n"
        "data: {{name: text, files: ['{}'], window: 8, batch: 8}}\n"
        "train: {{folder: '{}', epochs: 1, steps: 3, export: false}}\n"
        "distribute: {}\n",
        8 * heads, heads, (folder_.path() / "text.txt").string(), run().string(), distribute);
    return quoted(folder_.path() / "gpt.yaml");
  }
};

TEST_F(CliLayout, HeadsThatDoNotDivideAreRefusedByValidate) {
  const char* megatron = "{mesh: {data: 1, model: 2}, layout: megatron}";
  const auto uneven = run_starling("validate " + text_job(3, megatron));
  EXPECT_EQ(uneven.code, 2) << uneven.out;
  EXPECT_TRUE(has(uneven.err, "expected a number of attention heads that model: 2 divides, got 3")) << uneven.err;
  EXPECT_TRUE(has(uneven.err, "distribute.layout") || has(uneven.err, "gpt.yaml:")) << "its place: " << uneven.err;
  const auto even = run_starling("validate " + text_job(2, megatron));
  EXPECT_EQ(even.code, 0) << even.err;
}

TEST_F(CliLayout, ALayoutThatValidateRefusesIsRefusedEverywhereAndLeavesNoFolder) {
  const std::string uneven = text_job(3, "{mesh: {data: 1, model: 2}, layout: megatron}");
  for (const char* command : {"inspect layout ", "train ", "launch -n 2 "}) {
    const auto refused = run_starling(command + uneven);
    EXPECT_EQ(refused.code, 2) << command << refused.out;
    EXPECT_TRUE(has(refused.err, "expected a number of attention heads that model: 2 divides, got 3")) << refused.err;
    EXPECT_TRUE(has(refused.err, "gpt.yaml:4:")) << "its place: " << refused.err;
    EXPECT_FALSE(std::filesystem::exists(run())) << command;
  }
}

TEST_F(CliLayout, ARunGoesOnWithAnotherMeshThatIsGivenAlone) {
  const std::string job = text_job(2, "{mesh: {data: 1, model: 2}, layout: megatron}") + " --progress plain";
  ASSERT_EQ(run_starling("train " + job).code, 0);
  const std::string on = "train " + of_run() + " --progress plain --set train.steps=";
  const auto four = run_starling(on + "4 --set 'distribute.mesh={data: 4, model: 1}'");
  EXPECT_TRUE(has(four.err, "mesh data 4 x model 1 of 4 workers, layout megatron")) << four.err;
  EXPECT_TRUE(has(four.out, "4 steps, ")) << four.out << four.err;
  const auto two = run_starling(on + "5 --set distribute.mesh.data=2");
  EXPECT_TRUE(has(two.err, "mesh data 2 x model 1 of 2 workers, layout megatron")) << two.err;
  EXPECT_TRUE(has(two.out, "5 steps, ")) << two.out << two.err;
  const auto both = run_starling("train " + of_run() + " --set distribute.workers=3 --set distribute.mesh.data=2");
  EXPECT_EQ(both.code, 2) << "both are given, and differ: " << both.err;
}

TEST_F(CliLayout, SpatialIsRefusedWherePicturesMeetNoConvolutionOrPool) {
  const std::string spatial = " --set 'distribute={mesh: {data: 1, model: 2}, layout: spatial}'";
  const auto dense = run_starling("validate " + job() + spatial);
  EXPECT_EQ(dense.code, 2) << dense.out;
  EXPECT_TRUE(has(dense.err,
                  "expected parameters, or convolutions or pools of pictures, that spatial splits along "
                  "model: 2"))
      << dense.err;
  const auto pooled =
      run_starling("validate " + job() + spatial +
                   " --set 'model={layers: [{max_pool2d: {kernel: 2}}, flatten, {linear: {out: 10}}]}'");
  EXPECT_EQ(pooled.code, 0) << pooled.err;
}

TEST_F(CliLayout, TablesFitATerminal) {
  const std::string job = text_job(2, "{mesh: {data: 1, model: 2}, layout: megatron}");
  const auto shown = run_shell_in(folder_.path(), "COLUMNS=80 starling inspect layout " + job);
  ASSERT_EQ(shown.code, 0) << shown.err;
  std::istringstream lines(shown.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  const auto whole = run_shell_in(folder_.path(), "starling inspect layout " + job);
  const auto words = [](const std::string& text) {
    std::istringstream in(text);
    return std::vector<std::string>{std::istream_iterator<std::string>(in), {}};
  };
  EXPECT_EQ(words(shown.out), words(whole.out)) << "nothing but line ends differs";
}

TEST_F(CliLayout, TrainBeginsWithItsMesh) {
  const auto trained =
      run_starling("train " + text_job(2, "{mesh: {data: 1, model: 2}, layout: megatron}") + " --progress plain");
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(has(trained.err, "mesh data 1 x model 2 of 2 workers, layout megatron: at most 0.0")) << trained.err;
  const auto plain = run_starling("train " + text_job(2, "{workers: 2}") + " --resume none --progress plain");
  EXPECT_FALSE(has(plain.err, "mesh ")) << plain.err;
}

TEST_F(CliLayout, RanksThatDoNotMakeTheMeshAreRefusedByLaunch) {
  const std::string four = text_job(2, "{mesh: {data: 2, model: 2}, layout: megatron}");
  const auto three = run_starling("launch -n 3 " + four);
  EXPECT_EQ(three.code, 2) << three.out;
  EXPECT_TRUE(has(three.err, "[launch] expected 4 workers for the job's mesh, data 2 x model 2, got 3")) << three.err;
  EXPECT_FALSE(std::filesystem::exists(run() / "job.yaml")) << "nothing was trained";
  const auto four_ranks = run_starling("launch -n 4 " + four + " --progress off --set distribute.threads=1");
  EXPECT_EQ(four_ranks.code, 0) << four_ranks.err;
}

TEST_F(CliLayout, OpsThatTakeWholeOperandsAreCountedBeforeTraining) {
  const std::string lenet = " --set model.name=lenet --set 'distribute={mesh: {model: 2}, layout: ";
  const auto said = [&](const std::string& layout) {
    const auto checked = run_starling("validate " + job() + lenet + layout + "}'");
    EXPECT_EQ(checked.code, 0) << checked.err;
    return checked.err + checked.out;
  };
  EXPECT_TRUE(has(said("singa_feature"), "whole operands though pieces are there (")) << said("singa_feature");
  EXPECT_TRUE(has(said("singa_feature"), "conv2d")) << said("singa_feature");
  EXPECT_FALSE(has(said("spatial"), "whole operands")) << said("spatial");
  // The number is that of the report which tells which.
  const auto shown = run_starling("inspect layout " + job() + lenet + "singa_feature}'");
  const std::size_t at = shown.out.find(" ops take whole operands");
  ASSERT_NE(at, std::string::npos) << shown.out;
  const std::string count = shown.out.substr(shown.out.rfind('\n', at) + 1, at - shown.out.rfind('\n', at) - 1);
  EXPECT_TRUE(has(said("singa_feature"), "distribute.layout " + count + " ops take")) << count << said("singa_feature");
  const auto trained = train("--set train.steps=1 --set train.epochs=1" + lenet + "singa_feature}'");
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(has(trained.out + trained.err, "distribute.layout " + count + " ops take")) << trained.out << trained.err;
}

// The row of DistBelief in `starling systems` says how its locally connected net is cut.
TEST_F(CliLayout, DistBeliefsModelPartitionIsThatOfItsPresetsRow) {
  const std::string sets =
      " --set 'model={name: local_image, maps: 2, stages: 1, kernel: 5, pool: 3}'"
      " --set 'distribute={mesh: {model: 2}, layout: cots}' --set optimizer.name=sgd --set data.folder=" +
      quoted(folder_.path());
  const auto shown = run_starling("inspect layout distbelief" + sets);
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(has(shown.out, "0 ops take whole operands")) << shown.out;
  EXPECT_TRUE(has(shown.out, "halo")) << shown.out;
}

}  // namespace
}  // namespace starling::testing
