#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <sstream>
#include <utility>

#include "cli/program.h"
#include "starling/data/formats/npy.h"
#include "starling/ops/api/creation.h"
#include "starling/train/monitor/picture.h"

namespace starling {
namespace {

using testing::has;
using testing::run_shell_in;
using testing::run_starling;
using testing::run_starling_in;

// The calls that the help of a command ends with.
std::vector<std::string> examples_of(const std::string& command) {
  std::istringstream help(run_starling(command + " --help").out);
  std::vector<std::string> calls;
  bool begun = false;
  for (std::string line; std::getline(help, line);) {
    begun = begun || line == "Examples:";
    if (begun && line.starts_with("  starling ")) calls.push_back(line.substr(2));
  }
  return calls;
}

// A folder with everything that examples name, as small as it can be: jobs, runs, pictures, arrays, hosts.
class ExampleFolder {
 public:
  // Makes what the text of the examples mentions.
  explicit ExampleFolder(const std::string& examples) {
    const std::vector<std::pair<std::string, std::function<void()>>> makers = {
        {"job.yaml", [&] { write_job("job.yaml", ""); }},
        {"fashion_lenet", [&] { write_fashion_lenet(); }},
        {"runs/fashion_lenet", [&] { run("train examples/fashion_lenet.yaml --progress off"); }},
        {"runs/from_cpp", [&] { train_as_from_cpp(); }},
        {"houses", [&] { train_houses(); }},
        {"runs/reviews", [&] { train_reviews(); }},
        {"data pictures", [&] { write_pictures(); }},
        {"eval lenet", [&] { run("export runs/fashion_lenet -o lenet"); }},
        {"predict model", [&] { write_arrays(); }},
        {".png", [&] { write_pictures(); }},
        {"runs/char_gpt", [&] { train_char_gpt(); }},
        {"runs/g2p", [&] { train_g2p(); }},
        {"plot runs/lenet", [&] { train_for_plots(); }},
        {"runs runs/sweep", [&] { train_for_tables(); }},
        {"sweep job.yaml", [&] { write_sweep(); }},
        {"weights.safetensors", [&] { run("bench sae_small --batch 2 --export weights.safetensors"); }},
        {"hosts.txt", [&] { write_hosts(); }},
        {"./program",
         [&] { write_script("program", "#!/bin/sh\ntest \"$1\" = --flag && test -n \"$STARLING_RANK\"\n"); }}};
    for (const auto& [mentioned, make] : makers) {
      if (has(examples, mentioned)) make();
    }
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  void run(const std::string& arguments) const {
    const auto ran = run_starling_in(path(), arguments);
    EXPECT_EQ(ran.code, 0) << arguments << "\n" << ran.err;
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path() / name) << text; }
  void write_script(const std::string& name, const std::string& text) const {
    write(name, text);
    std::filesystem::permissions(path() / name, std::filesystem::perms::owner_all);
  }
  void write_job(const std::string& name, const std::string& train) const {
    if (!std::filesystem::exists(path() / "data")) {
      std::filesystem::create_directories(path() / "data");
      testing::write_tiny_fashion(path() / "data", 40, 20);
    }
    write(name, "model: {name: mlp}\ndata: {name: fashion_mnist, folder: data, batch: 20}\n" + train);
  }
  // The preset itself, with little data.
  void write_fashion_lenet() const {
    write_job("unused.yaml", "");
    std::filesystem::create_directories(path() / "examples");
    const auto preset = std::filesystem::path(STARLING_SOURCE_FOLDER) / "examples" / "fashion_lenet.yaml";
    const auto written = run_starling_in(path(), "print-config '" + preset.string() +
                                                     "' --yaml --set data.folder=data --set data.batch=20 --set "
                                                     "train.epochs=1");
    EXPECT_EQ(written.code, 0) << written.err;
    write("examples/fashion_lenet.yaml", written.out);
  }
  void write_arrays() const {
    run("export runs/fashion_lenet -o model");
    data::write_npy(path() / "data.npy", zeros({3, 1, 28, 28})).value();
  }
  void write_pictures() const {
    train::Picture grey{.width = 28, .height = 28, .channels = 1, .pixels = std::vector<std::uint8_t>(28 * 28, 90)};
    std::filesystem::create_directories(path() / "pictures");
    for (const char* name : {"shoe.png", "shirt.jpg", "pictures/a.png"}) write(name, to_png(grey));  // told by content
  }
  // A run as C++ programs leave it: without a job.
  void train_as_from_cpp() const {
    run("train examples/fashion_lenet.yaml --progress off --set train.folder=runs/from_cpp");
    std::filesystem::remove(path() / "runs/from_cpp/job.yaml");
  }
  void train_houses() const {
    std::string rows = "area,heating,price\n";
    for (int i = 0; i < 20; ++i)
      rows += std::to_string(40 + i) + (i % 2 == 0 ? ",gas," : ",oil,") + std::to_string(90 + i) + ".5\n";
    write("houses.csv", rows);
    write("new.csv", "heating,area\noil,50\n");
    write("houses.yaml",
          "model: {name: mlp, hidden: [4]}\ndata: {name: csv, train: [houses.csv], label: price, label_kind: number, "
          "categories: [heating], batch: 4, split: {test: 0.2, seed: 1}}\ntrain: {epochs: 1}\n");
    run("train houses.yaml --progress off");
  }
  void train_reviews() const {
    std::string rows = "text,kind\n";
    for (int i = 0; i < 10; ++i) rows += "well made and fast,praise\nit came late,complaint\n";
    write("reviews.csv", rows);
    write("more.csv", "text\nit is fast\n");
    write("reviews.yaml",
          "model: {name: gru, width: 4}\ndata: {name: csv_text, train: [reviews.csv], text: text, label: kind, length: "
          "6, batch: 4, split: {test: 0.2, seed: 1}}\ntrain: {epochs: 1}\n");
    run("train reviews.yaml --progress off");
  }
  void train_char_gpt() const {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "The meaning of life is to train. ";
    write("text.txt", text);
    write("gpt.yaml",
          "model: {name: gpt, width: 8, depth: 1, heads: 1}\ndata: {name: text, files: [text.txt], tokens: characters, "
          "window: 16, batch: 4}\ntrain: {folder: runs/char_gpt, steps: 1}\n");
    run("train gpt.yaml --progress off");
  }
  void train_g2p() const {
    std::string words;
    for (const char* word : {"starling", "murmuration", "bird", "flock"}) {
      for (int i = 0; i < 10; ++i)
        words += std::string(word) + std::string(static_cast<std::size_t>(i), 'a') + " S T AA\n";
    }
    write("words.dict", words);
    write("g2p.yaml",
          "model: {name: seq2seq, width: 8, hidden: 8}\ndata: {name: dictionary, file: words.dict, batch: 4}\ntrain: "
          "{folder: runs/g2p, steps: 1}\n");
    run("train g2p.yaml --progress off");
  }
  void train_for_plots() const {
    write_job("plots.yaml", "");
    for (const char* name : {"lenet", "a", "b"})
      run(std::string("train plots.yaml --progress off --set train.folder=runs/") + name);
  }
  void train_for_tables() const {
    write_job("table.yaml", "");
    for (const char* rate : {"0.1", "0.01"})
      run(std::string("train table.yaml --progress off --set train.folder=runs/sweep/") + rate +
          " --set optimizer.lr=" + rate);
  }
  // A job with settings to vary, on data that takes no time.
  void write_sweep() const {
    write("job.yaml",
          "model: {name: mlp, hidden: [2]}\ndata: {name: synthetic, train_samples: 20, test_samples: 10, shape: [2], "
          "classes: 2, batch: 10}\ntrain: {epochs: 2, export: false}\n"
          "sweep: {trials: 2, settings: {optimizer.lr: [0.1, 0.01]}}\n");
  }
  // Hosts that a shell of this machine stands in for.
  void write_hosts() const {
    write("hosts.txt", "localhost slots=2\n");
    std::filesystem::create_directories(path() / "bin");
    write_script("bin/ssh", "#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done\nexec sh -c \"$1\"\n");
  }

  testing::TestFolder folder_{"cli-help-examples"};
};

class CliHelpExamples : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(CliHelpExamples, WorkAsPrinted) {
  const auto [command, shorter] = GetParam();
  const auto calls = examples_of(command);
  ASSERT_FALSE(calls.empty()) << command;
  std::string all;
  for (const auto& call : calls) all += call + "\n";
  const ExampleFolder folder(all);
  for (const auto& call : calls) {
    const auto ran = run_shell_in(folder.path(), "PATH=\"$PWD/bin:$PATH\" HOME=\"$PWD\"; " + call + shorter);
    EXPECT_EQ(ran.code, 0) << call << "\n" << ran.out << ran.err;
  }
}

// Commands whose examples are tried, and what makes them shorter: measurements take as long as they are told to, here
// no longer than needed to see that they work.
const std::vector<std::pair<const char*, const char*>> kTried = {{"train", ""},
                                                                 {"validate", ""},
                                                                 {"print-config", ""},
                                                                 {"eval", ""},
                                                                 {"predict", ""},
                                                                 {"export", ""},
                                                                 {"plot", ""},
                                                                 {"bench", " --seconds 0"},
                                                                 {"verify", " --no-fp64"},
                                                                 {"ops", ""},
                                                                 {"inspect graph", ""},
                                                                 {"inspect model", ""},
                                                                 {"inspect layout", ""},
                                                                 {"inspect run", ""},
                                                                 {"inspect data", ""},
                                                                 {"launch", ""},
                                                                 {"systems", ""},
                                                                 {"doctor", " --backend threads"},
                                                                 {"runs", ""},
                                                                 {"sweep", ""},
                                                                 {"lr-find", " --steps 20"},
                                                                 {"report", ""},
                                                                 {"completion", ""},
                                                                 {"layers", ""},
                                                                 {"zoo", ""}};

INSTANTIATE_TEST_SUITE_P(Commands, CliHelpExamples, ::testing::ValuesIn(kTried), [](const auto& info) {
  std::string name = info.param.first;
  for (char& c : name) c = c == ' ' || c == '-' ? '_' : c;
  return name;
});

// Commands that the help of the program, or of a group of commands, lists: "train", "inspect graph".
std::set<std::string> commands_below(const std::string& group) {
  std::istringstream help(run_starling(group + " --help").out);
  std::set<std::string> commands;
  bool begun = false;
  for (std::string line; std::getline(help, line);) {
    begun = begun ? !line.empty() : line == "Subcommands:";
    if (!begun || !line.starts_with("  ") || line.starts_with("   ")) continue;
    const std::string command = group + (group.empty() ? "" : " ") + line.substr(2, line.find(' ', 2) - 2);
    const auto deeper = commands_below(command);
    commands.insert(deeper.begin(), deeper.end());
    if (deeper.empty()) commands.insert(command);
  }
  return commands;
}

TEST(CliHelp, HasExamplesOfEveryCommandThatAreTriedHere) {
  std::set<std::string> tried;
  for (const auto& [command, shorter] : kTried) tried.insert(command);
  EXPECT_EQ(commands_below(""), tried) << "a command that is not in kTried, or one there that is gone";
}

TEST(CliHelp, EveryCommandIsInTheReadmeAndOnThePageOfCommands) {
  const std::filesystem::path source = STARLING_SOURCE_FOLDER;
  const std::string readme = testing::file_text(source / "README.md");
  const std::string page = testing::file_text(source / "docs" / "commands.md");
  for (const auto& command : commands_below("")) {
    EXPECT_TRUE(has(readme, "`" + command.substr(0, command.find(' ')) + "`")) << command;
    const bool below = command == "inspect run";  // in the row of inspect data
    EXPECT_TRUE(has(page, below ? "`run`" : "`starling " + command)) << command;
  }
}

TEST(CliHelp, FitsTheColumnsOfTheTerminal) {
  for (const std::string command : {"", "bench", "sweep", "inspect data"}) {
    std::istringstream help(run_shell_in(".", "COLUMNS=80 starling " + command + " --help").out);
    for (std::string line; std::getline(help, line);)
      EXPECT_TRUE(line.size() <= 82 || line.starts_with("  starling ")) << line;  // 82: letters of two bytes
    const std::string wide = run_starling(command + " --help").out;
    std::string narrow = run_shell_in(".", "COLUMNS=60 starling " + command + " --help").out, all = wide;
    const auto is_blank = [](char c) { return c == ' ' || c == '\n'; };
    std::erase_if(narrow, is_blank);
    std::erase_if(all, is_blank);
    EXPECT_EQ(narrow, all) << "words are moved, not changed";
  }
}

}  // namespace
}  // namespace starling
