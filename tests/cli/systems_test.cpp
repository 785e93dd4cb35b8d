#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/program.h"
#include "testing/temporary_folder.h"

namespace starling::testing {
namespace {

namespace fs = std::filesystem;

nlohmann::json table() { return nlohmann::json::parse(run_starling("systems --json").out); }

TEST(CliSystems, ListsTheClassicSystemsByName) {
  std::set<std::string> names;
  for (const auto& system : table()) names.insert(system.at("name").get<std::string>());
  for (const char* name :
       {"tensorflow", "cntk",      "deeplearning4j", "mxnet",    "h2o",          "caffeonspark", "theano",
        "torch",      "poseidon",  "pytorch",        "caffe",    "singa",        "petuum",       "sparknet",
        "mpi_caffe",  "cots_hpc",  "distbelief",     "graphlab", "project_adam", "systemml",     "destin",
        "nexus",      "chainermn", "ltfb",           "mariana"})
    EXPECT_TRUE(names.contains(name)) << name;
  const auto shown = run_starling("systems");
  EXPECT_EQ(shown.code, 0);
  for (const auto& name : names) EXPECT_NE(shown.out.find(name), std::string::npos) << name;
}

TEST(CliSystems, TellsMoreOfOneAndTheNearestOfAnUnknownOne) {
  const auto one = run_starling("systems sparknet");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.out.find("local steps"), std::string::npos) << one.out;
  const auto wrong = run_starling("systems sparknt");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("'sparknet'"), std::string::npos) << wrong.err;
}

// All text of the tests: what a system is said to provide must be held by a test among them.
std::string sources_of_tests() {
  std::string text;
  for (const auto& file : fs::recursive_directory_iterator(fs::path(STARLING_SOURCE_FOLDER) / "tests"))
    if (file.path().extension() == ".cpp") text += read_text(file.path());
  return text;
}

TEST(CliSystems, EveryPartSaidToBeHereHasATestThatHoldsIt) {
  const std::string tests = sources_of_tests();
  int proved = 0;
  for (const auto& system : table()) {
    const auto here = system.at("here").get<std::string>(), proof = system.at("proof").get<std::string>();
    EXPECT_EQ(here.empty(), proof.empty()) << system;
    if (proof.empty()) continue;
    const auto dot = proof.find('.');
    ASSERT_NE(dot, std::string::npos) << system;
    const std::string named = "(" + proof.substr(0, dot) + ", " + proof.substr(dot + 1) + ") {";
    EXPECT_TRUE(tests.find("TEST" + named) != std::string::npos || tests.find("TEST_P" + named) != std::string::npos ||
                tests.find("TEST_F" + named) != std::string::npos)
        << system;
    ++proved;
  }
  EXPECT_GE(proved, 17);
}

TEST(CliSystems, CommandsNamePresetsThatAreSoundJobsAndNothingElseIsAPreset) {
  const fs::path root(STARLING_SOURCE_FOLDER);
  std::set<fs::path> named;
  for (const auto& system : table()) {
    const auto command = system.at("command").get<std::string>();
    EXPECT_EQ(command.empty(), system.at("here").get<std::string>().empty()) << system;
    if (command.empty()) continue;
    const fs::path preset = root / command.substr(command.find("examples/"));
    named.insert(preset);
    EXPECT_EQ(preset.stem(), system.at("name").get<std::string>());
    const auto ran = run_starling("validate --no-data '" + preset.string() + "'");
    EXPECT_EQ(ran.code, 0) << preset << ran.err;
  }
  for (const auto& file : fs::directory_iterator(root / "examples" / "systems"))
    EXPECT_TRUE(named.contains(file.path())) << file.path();
}

// Presets of systems whose workers share a model through servers, or send gradients in other forms: some steps of each,
// as its command says.
// Label: full
TEST(CliSystems, PresetsOfServersAndCodecsTrainAsShown) {
  const TestFolder folder("cli-systems-run");
  write_tiny_fashion(folder.path(), 256, 32);
  std::set<std::string> ran;
  for (const auto& system : table()) {
    const auto name = system.at("name").get<std::string>();
    if (!std::set<std::string>{"distbelief", "h2o", "project_adam", "petuum", "poseidon", "singa", "mxnet", "nexus",
                               "cntk"}
             .contains(name))
      continue;
    const auto command = system.at("command").get<std::string>();
    const std::string root = STARLING_SOURCE_FOLDER;
    const auto place = command.find("examples/");
    const fs::path out = folder.path() / name;
    const auto done =
        run_shell_in(folder.path(), command.substr(0, place) + "'" + root + "/" + command.substr(place) +
                                        "' --progress off --set data.folder='" + folder.path().string() +
                                        "' --set data.batch=32 --set train.steps=6 --set train.export=false " +
                                        "--set monitor.tensorboard=false --set train.folder='" + out.string() + "'");
    EXPECT_EQ(done.code, 0) << name << "\n" << done.err;
    if (done.code != 0) continue;
    const auto summary = nlohmann::json::parse(read_text(out / "summary.json"));
    EXPECT_EQ(summary.at("steps"), 6) << name;
    EXPECT_TRUE(summary.at("loss").is_number()) << name;
    const bool served = !std::set<std::string>{"h2o", "singa", "cntk"}.contains(name);
    EXPECT_EQ(summary.at("ranks").at(0).at("counters").contains("servers.keys"), served) << name;
    ran.insert(name);
  }
  EXPECT_EQ(ran.size(), 9U);
}

TEST(CliSystems, PresetsAreFoundByNameFromAnyFolder) {
  const TestFolder empty("cli-presets");
  const auto by_name = run_starling_in(empty.path(), "print-config sparknet --yaml");
  EXPECT_EQ(by_name.code, 0) << by_name.err;
  const auto by_path = run_starling_in(empty.path(), "print-config examples/systems/sparknet.yaml --yaml");
  EXPECT_EQ(by_path.out, by_name.out);
  EXPECT_NE(by_name.out.find("local_sgd"), std::string::npos) << by_name.out;
  // A file of the user comes first.
  std::ofstream(empty.path() / "sparknet") << "model: {name: lenet}\ntrain: {folder: runs/mine}\n";
  EXPECT_NE(run_starling_in(empty.path(), "print-config sparknet --yaml").out.find("runs/mine"), std::string::npos);
  const auto wrong = run_starling_in(empty.path(), "train sparknt");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("got 'sparknt' (did you mean 'sparknet'?)"), std::string::npos) << wrong.err;
}

}  // namespace
}  // namespace starling::testing
