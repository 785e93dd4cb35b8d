#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "cli/program.h"

namespace starling {
namespace {

using testing::has;
using testing::run_shell_in;

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

  // Output of a command line on a terminal of so many columns.
  std::string shown_at(unsigned short columns, const std::string& line) const {
    const std::string command = "cd '" + folder_.path().string() + "' && unset COLUMNS && PATH='" +
                                testing::program_path().parent_path().string() + "':\"$PATH\" && " + line;
    const winsize size{.ws_row = 25, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    int terminal = -1;
    const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
    if (child == 0) {
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(99);
    }
    std::string shown;
    std::array<char, 4096> bytes;
    for (ssize_t got = 0; (got = ::read(terminal, bytes.data(), bytes.size())) > 0;)
      shown.append(bytes.data(), static_cast<std::size_t>(got));
    ::close(terminal);
    ::waitpid(child, nullptr, 0);
    std::erase(shown, '\r');
    return shown;
  }

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
  EXPECT_TRUE(has(run("starling runs --settings beta1").out, "started")) << "nothing goes where there is room";
  const std::string asked = run("COLUMNS=80 starling runs --settings beta1,hidden,lr").out;
  EXPECT_LE(widest(asked), 80U) << asked;
  for (const char* part : {"beta1", "hidden", "  lr  ", "test_accuracy", "no room for", "; --csv has all"})
    EXPECT_TRUE(has(asked, part)) << "what is asked for stays longest: " << part << "\n" << asked;
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

TEST_F(CliTerminal, ErrorsAreBrokenAtATerminalOnly) {
  const std::string call = "starling train nowhere.yaml --set train.folder=runs/other --zebra";
  const std::string piped = run(call).err;
  EXPECT_EQ(std::count(piped.begin(), piped.end(), '\n'), 1) << piped;
  EXPECT_GT(widest(piped), 70U) << piped;
  const std::string shown = shown_at(60, call);
  EXPECT_LE(widest(shown), 60U) << shown;
  EXPECT_TRUE(has(shown, "starling: ") && has(shown, "\n          ")) << shown;
  std::string words = shown;
  while (words.find("\n          ") != std::string::npos) words.replace(words.find("\n          "), 11, " ");
  EXPECT_EQ(words, piped) << "the same words";
}

TEST_F(CliTerminal, LinesOfTrainingAreBrokenBetweenWords) {
  std::ofstream(folder_.path() / "job.yaml")
      << "model: {name: mlp, hidden: [4]}\ndata: {name: synthetic, train_samples: 40, test_samples: 20, shape: [4]}\n"
         "train: {epochs: 2, folder: run, export: false}\ndistribute: {mesh: {data: 2, model: 1}, layout: megatron}\n";
  for (const char* line : {"starling train job.yaml --resume none --progress plain",
                           "starling launch -n 2 job.yaml --resume none --progress plain"}) {
    const std::string shown = shown_at(60, line);
    EXPECT_LE(widest(shown), 60U) << shown;
    EXPECT_TRUE(has(shown, "summary.json")) << shown;
  }
  const auto redirected = run("starling train job.yaml --resume none --progress plain 2>&1");
  EXPECT_GT(widest(redirected.out), 80U) << "files have whole lines: " << redirected.out;
}

TEST_F(CliTerminal, LinesOfSystemsAreBrokenBetweenWords) {
  const std::string narrow = run("COLUMNS=80 starling systems | grep -v '\\$'").out;
  EXPECT_LE(widest(narrow), 80U) << narrow;
  EXPECT_TRUE(has(narrow, "\n                         ")) << narrow;
  EXPECT_EQ(run("starling systems").out, run("COLUMNS=0 starling systems").out);
}

}  // namespace
}  // namespace starling
