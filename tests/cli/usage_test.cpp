#include <gtest/gtest.h>

#include "cli/program.h"
#include "starling/base/version.h"

namespace starling {
namespace {

using testing::has;
using testing::run_starling;

TEST(CliUsage, AloneItShowsItsHelp) {
  const auto ran = run_starling("");
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.out, run_starling("--help").out);
  EXPECT_TRUE(has(ran.out, "Subcommands:") && has(ran.out, "starling help COMMAND")) << ran.out;
}

TEST(CliUsage, TellsItsVersion) {
  const auto ran = run_starling("--version");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, std::string("starling ") + kVersion + "\n");
  EXPECT_EQ(run_starling("version").out, ran.out);
}

TEST(CliUsage, HelpIsACommandToo) {
  EXPECT_EQ(run_starling("help").out, run_starling("--help").out);
  EXPECT_EQ(run_starling("help train").out, run_starling("train --help").out);
  EXPECT_EQ(run_starling("help inspect run").out, run_starling("inspect run --help").out);
  const auto unknown = run_starling("help trian");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(has(unknown.err, "did you mean 'train'?")) << unknown.err;
}

TEST(CliUsage, NamesWhatIsMissingAndTheHelpThatTellsMore) {
  const auto eval = run_starling("eval");
  EXPECT_EQ(eval.code, 2);
  EXPECT_EQ(eval.err,
            "starling: [eval] expected 'what' (Folder of a run or of a saved model), got none (see starling eval "
            "--help)\n");
  const auto verify = run_starling("verify");
  EXPECT_EQ(verify.code, 2);
  EXPECT_TRUE(has(verify.err, "a network or a job file, as in `starling verify lenet`")) << verify.err;
  EXPECT_FALSE(has(run_starling("verify --help").out, "--net"));
  const auto group = run_starling("inspect");
  EXPECT_EQ(group.code, 2);
  EXPECT_TRUE(has(group.err, "behind `starling inspect`") && has(group.err, "graph")) << group.err;
  EXPECT_TRUE(has(group.err, "got none, as in `starling inspect run runs/")) << group.err;
  EXPECT_TRUE(has(run_starling("inspect foo").err, "behind `starling inspect`, got 'foo'"));
  EXPECT_TRUE(has(run_starling("inspect modl x").err, "got 'modl' (did you mean 'model'?)"));
  EXPECT_TRUE(has(run_starling("inspect --help").out, "Examples:\n  starling inspect run"));
}

TEST(CliUsage, SuggestsNamesOrTheCommandThatListsThem) {
  const std::pair<const char*, const char*> calls[] = {
      {"ops conv2", "got 'conv2' (did you mean 'conv2d'?)"},
      {"ops pool", "have it in their names; `starling ops` lists all)"},
      {"ops nope", "expected the name of an op, got 'nope' (`starling ops` lists all)"},
      {"layers pool", "max_pool2d"},
      {"layers nope", "(`starling layers` lists all)"},
      {"zoo resnet", "resnet18"},
      {"zoo nope", "expected the name of a network, got 'nope' (`starling zoo` lists all)"}};
  for (const auto& [call, told] : calls) {
    const auto ran = run_starling(call);
    EXPECT_EQ(ran.code, 2) << call;
    EXPECT_TRUE(has(ran.err, told)) << call << "\n" << ran.err;
  }
}

TEST(CliUsage, TellsWhereAMisplacedOptionBelongs) {
  const auto before = run_starling("--set a=1 train job.yaml");
  EXPECT_EQ(before.code, 2);
  EXPECT_TRUE(has(before.err, "expected --set behind the command, as in `starling train … --set …`")) << before.err;
  const auto other = run_starling("validate job.yaml --progress plain");
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(has(other.err, "got --progress, which belongs to starling train")) << other.err;
  EXPECT_TRUE(has(other.err, "(see starling validate --help)")) << other.err;
  const auto near = run_starling("train job.yaml --progres plain");
  EXPECT_TRUE(has(near.err, "did you mean --progress?")) << near.err;
  const auto more = run_starling("validate a.yaml b.yaml");
  EXPECT_EQ(more.code, 2);
  EXPECT_TRUE(has(more.err, "got 'b.yaml'")) << more.err;
}

TEST(CliUsage, AJobThatIsNotThereIsNamedWithTheNearestThatIs) {
  const testing::TestFolder folder("cli-missing-job");
  std::ofstream(folder.path() / "fruit.yaml") << "model: mlp\ndata: synthetic\n";
  for (const char* command : {"train", "validate", "print-config"}) {
    const auto ran = testing::run_starling_in(folder.path(), std::string(command) + " fruit.yml");
    EXPECT_EQ(ran.code, 2);
    EXPECT_TRUE(has(ran.err, "got fruit.yml, which is not there (did you mean 'fruit.yaml'?)")) << ran.err;
  }
  EXPECT_TRUE(has(run_starling("train nowhere/x.yaml").err, "got nowhere/x.yaml, which is not there")) << folder.path();
}

TEST(CliUsage, LaunchOffersOnlyBackendsThatItTakes) {
  EXPECT_FALSE(has(run_starling("launch --help").out, "or mpi"));
  EXPECT_TRUE(has(run_starling("launch --help").out, "mpirun"));
}

}  // namespace
}  // namespace starling
