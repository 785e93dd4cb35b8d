#include <gtest/gtest.h>

#include <sstream>

#include "cli/tiny_job.h"

namespace starling {
namespace {

using testing::has;
using testing::run_starling;

// Completions that bash offers for the last of the words, by the script that the program writes.
std::string offered(const std::string& words) {
  const testing::TestFolder folder("cli-completion");
  const auto script = folder.path() / "starling.bash", out = folder.path() / "out";
  EXPECT_EQ(run_starling("completion bash -o '" + script.string() + "'").code, 0);
  const std::string command = "cd '" + folder.path().string() +
                              "' && bash -c 'source \"$1\"; shift; COMP_WORDS=(\"$@\"); " +
                              "COMP_CWORD=$(($# - 1)); _starling; echo \"${COMPREPLY[*]}\"' bash '" + script.string() +
                              "' " + words + " >'" + out.string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return testing::file_text(out);
}

TEST(CliCompletion, OffersEveryCommandOfTheHelp) {
  const std::string all = offered("starling ''");
  std::istringstream help(run_starling("--help").out);
  std::string line;
  bool listed = false;
  int commands = 0;
  while (std::getline(help, line)) {
    if (listed && line.starts_with("  ") && !line.starts_with("   ")) {
      const std::string name = line.substr(2, line.find(' ', 2) - 2);
      EXPECT_TRUE(has(" " + all, " " + name)) << name;
      ++commands;
    }
    if (line.empty()) listed = false;
    listed = listed || line.starts_with("Subcommands");
  }
  EXPECT_GT(commands, 15);
}

TEST(CliCompletion, OffersCommandsOfGroupsOptionsChoicesAndFiles) {
  EXPECT_EQ(offered("starling insp"), "inspect\n");
  EXPECT_EQ(offered("starling inspect m"), "model\n");
  EXPECT_EQ(offered("starling inspect model --ch"), "--checkpoint\n");
  EXPECT_EQ(offered("starling sweep job.yaml --method ''"), "grid random halving\n");
  EXPECT_EQ(offered("starling train starling.b"), "starling.bash\n");
  EXPECT_EQ(offered("starling train job.yaml --no-such"), "\n");
}

TEST(CliCompletion, WritesScriptsForOtherShells) {
  const auto zsh = run_starling("completion zsh"), fish = run_starling("completion fish");
  EXPECT_TRUE(zsh.out.starts_with("#compdef starling\n"));
  EXPECT_TRUE(has(zsh.out, "'sweep:Trains a job with many settings")) << zsh.out.substr(0, 3000);
  EXPECT_TRUE(has(fish.out, "-a sweep -d 'Trains a job with many settings")) << fish.out.substr(0, 3000);
  EXPECT_TRUE(has(fish.out, "__fish_seen_subcommand_from inspect; and __fish_seen_subcommand_from model' -l batch"));
  EXPECT_EQ(run_starling("completion tcsh").code, 2);
  const testing::TestFolder folder("cli-completion-shells");
  for (const std::string shell : {"bash", "zsh", "fish"}) {  // the grammar, where the shell is installed
    const auto file = folder.path() / shell;
    ASSERT_EQ(run_starling("completion " + shell + " -o '" + file.string() + "'").code, 0);
    if (std::system(("command -v " + shell + " >/dev/null").c_str()) != 0) continue;
    EXPECT_EQ(std::system((shell + " -n '" + file.string() + "'").c_str()), 0) << shell;
  }
}

}  // namespace
}  // namespace starling
