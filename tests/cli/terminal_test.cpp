#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "cli/program.h"

namespace starling {
namespace {

using testing::run_shell_in;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Characters of the longest line; those of UTF-8 begin with a byte that continues none.
std::size_t widest(const std::string& text) {
  std::istringstream lines(text);
  std::ptrdiff_t most = 0;
  for (std::string line; std::getline(lines, line);)
    most = std::max(most, std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  return static_cast<std::size_t>(most);
}

class CliTerminal : public ::testing::Test {
 protected:
  testing::Ran run(const std::string& line) const { return run_shell_in(folder_.path(), line); }
  testing::TestFolder folder_{"cli-terminal"};
};

TEST_F(CliTerminal, TheTableOfRunsFitsAndNamesWhatItHasNoRoomFor) {
  const std::string train = "train: {epochs: 1, export: false}\n";
  const std::string data =
      "data: {name: synthetic, train_samples: 40, test_samples: 20, shape: [1, 32, 32], batch: 20}\n";
  std::ofstream(folder_.path() / "wide.yaml") << "model: {name: mlp, hidden: [4]}\noptimizer: {name: sgd, lr: 0.1}\n"
                                              << data << train;
  std::ofstream(folder_.path() / "deep.yaml") << "model: {name: lenet}\noptimizer: {name: adam, lr: 0.01}\n"
                                              << data << train;
  for (const char* job : {"wide", "deep"}) {
    const auto trained = run(std::string("starling train --progress off ") + job + ".yaml");
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
  const std::string whole = run("starling runs").out, narrow = run("COLUMNS=80 starling runs").out;
  EXPECT_GT(widest(whole), 120U) << whole;
  EXPECT_LE(widest(narrow), 80U) << narrow;
  EXPECT_FALSE(has(whole, "no room for"));
  for (const char* part : {"model.name", "test_accuracy", "no room for", "started", "--settings chooses"})
    EXPECT_TRUE(has(narrow, part)) << part << "\n" << narrow;
  EXPECT_EQ(run("COLUMNS=80 starling runs --csv").out, run("starling runs --csv").out);
  EXPECT_TRUE(has(run("COLUMNS=80 starling runs --settings beta1").out, "started")) << "what is asked for stays whole";
}

TEST_F(CliTerminal, TablesFitEightyColumns) {
  std::ofstream(folder_.path() / "wide.yaml")
      << "model: {name: mlp, hidden: [4]}\ndistribute: {workers: 2, strategy: local_sgd}\n"
         "data: {name: synthetic, train_samples: 40, test_samples: 20, shape: [1, 4, 4], batch: 20}\n";
  ASSERT_EQ(run("starling train --progress off wide.yaml").code, 0);
  std::ofstream table(folder_.path() / "t.csv");
  table << "a,words,gaps\n";
  for (int i = 0; i < 9; ++i) table << i << ",a rather long cell of the table number " << i << ",NA\n";
  table.close();
  for (const char* call : {"zoo resnet18", "zoo", "layers", "layers conv2d", "print-config wide.yaml",
                           "inspect run runs/wide", "inspect data t.csv", "systems", "verify wide.yaml"}) {
    const auto ran = run(std::string("COLUMNS=80 starling ") + call);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_LE(widest(ran.out), 80U) << call << "\n" << ran.out;
  }
  const std::string whole = run("starling layers conv2d").out;
  EXPECT_TRUE(has(whole, "lecun_normal, orthogonal, sparse, identity, dirac")) << "nothing is broken in files";
  EXPECT_TRUE(has(run("starling inspect data t.csv").out, "gaps    nothing")) << run("starling inspect data t.csv").out;
}

TEST_F(CliTerminal, LinesOfSystemsAreBrokenBetweenWords) {
  const std::string narrow = run("COLUMNS=80 starling systems | grep -v '\\$'").out;
  EXPECT_LE(widest(narrow), 80U) << narrow;
  EXPECT_TRUE(has(narrow, "\n                         ")) << narrow;
  EXPECT_EQ(run("starling systems").out, run("COLUMNS=0 starling systems").out);
}

}  // namespace
}  // namespace starling
