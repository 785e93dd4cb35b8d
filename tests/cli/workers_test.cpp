#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace starling::testing {
namespace {

class CliWorkers : public ::testing::Test {
 protected:
  void SetUp() override {
    write_tiny_fashion(folder_.path(), 103, 40);
    std::ofstream(folder_.path() / "job.yaml")
        << "model: {name: mlp}\ndata: {folder: '" << folder_.path().string()
        << "', batch: 32}\noptimizer: {lr: 0.05, momentum: 0.9}\ntrain: {epochs: 2, folder: '"
        << (folder_.path() / "run").string() << "'}\ndistribute: {threads: 1}\n";
  }
  Ran train(const std::string& more) const {
    return run_starling("train '" + (folder_.path() / "job.yaml").string() + "' --progress off " + more);
  }

  TestFolder folder_{"cli-workers"};
};

TEST_F(CliWorkers, TrainWithAsManyAsTheCommandLineSays) {
  const auto ran = train("--set distribute.workers=2 --trace '" + (folder_.path() / "trace.json").string() + "'");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "8 steps")) << ran.out;
  const auto told = run_starling("inspect run '" + (folder_.path() / "run").string() + "'");
  for (const char* part : {"rank 0", "rank 1", "all_reduce", "straggler", "allreduce(2 ranks)"})
    EXPECT_TRUE(has(told.out, part)) << part << "\n" << told.out;
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "trace.json"));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "run" / "model"));
}

// As threads, as processes, and first one, then the other.
TEST_F(CliWorkers, EndInTheSameBitsAsThreadsAndAsProcesses) {
  const std::string fixed = "--progress off --set distribute.deterministic=true --set distribute.shards=6 ";
  const auto in = [&](const std::string& name) { return folder_.path() / name; };
  const auto hash_after = [&](const std::string& command, const std::string& name, const std::string& more = "") {
    const auto ran = run_starling(command + " '" + in("job.yaml").string() + "' " + fixed + more +
                                  " --set train.folder='" + in(name).string() + "'");
    EXPECT_EQ(ran.code, 0) << command << ran.err;
    return nlohmann::json::parse(file_text(in(name) / "summary.json")).at("weights_hash").get<std::string>();
  };
  const std::string one = hash_after("train", "one");
  EXPECT_EQ(hash_after("train", "three", "--set distribute.workers=3"), one);
  EXPECT_EQ(hash_after("launch -n 2", "two"), one);
  EXPECT_NE(hash_after("launch -n 3", "broken", "--set train.steps=5"), one);
  EXPECT_EQ(hash_after("train", "broken", "--set distribute.workers=2"), one) << "it goes on";
  EXPECT_NE(hash_after("launch -n 2", "other", "--set train.seed=2"), one);
}

// Weights do not depend on who stores the state: a run begun by processes that store pieces of all state goes on as
// threads that store pieces of some, and as a single worker.
TEST_F(CliWorkers, LearnTheSameWithStateInPieces) {
  const auto in = [&](const std::string& name) { return folder_.path() / name; };
  const auto loss_after = [&](const std::string& command, const std::string& name, const std::string& more = "") {
    const auto ran = run_starling(command + " '" + in("job.yaml").string() + "' --progress off " + more +
                                  " --set train.folder='" + in(name).string() + "'");
    EXPECT_EQ(ran.code, 0) << command << ran.err;
    return nlohmann::json::parse(file_text(in(name) / "summary.json")).at("loss").get<double>();
  };
  const double one = loss_after("train", "one");
  EXPECT_NEAR(loss_after("train", "threads", "--set distribute.workers=3 --set distribute.zero=2"), one, 1e-3);
  loss_after("launch -n 2", "run", "--set distribute.zero=3 --set train.steps=3");
  loss_after("train", "run", "--set distribute.workers=3 --set distribute.zero=1 --set train.steps=5");
  EXPECT_NEAR(loss_after("train", "run"), one, 1e-3);
}

TEST_F(CliWorkers, AreRefusedWithThePlaceOfWhatIsWrong) {
  const auto unknown = train("--set distribute.strategy=alreduce");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(has(unknown.err, "did you mean 'allreduce'?")) << unknown.err;
  EXPECT_TRUE(has(unknown.err, "--set distribute.strategy")) << unknown.err;
  EXPECT_EQ(train("--set distribute.workers=0").code, 2);
}

}  // namespace
}  // namespace starling::testing
