// Runs that go on by another strategy than the one that made their checkpoint; ranks are threads.
#include <gtest/gtest.h>

#include "starling/dist/ps/wire.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/job/job_run.h"
#include "train/tiny_job.h"

namespace starling::train {
namespace {

class OtherStrategies : public TinyJobTest {
 protected:
  OtherStrategies() : TinyJobTest("other-strategies", "{name: mlp, hidden: [16]}") {}
  void SetUp() override {
    if (!dist::ps::has_wire()) GTEST_SKIP() << "built without ZeroMQ";
    TinyJobTest::SetUp();
  }
  CheckpointFolder checkpoints(const std::string& folder) const {
    return CheckpointFolder(runs_.path() / folder / "checkpoints");
  }
  TrainResult epochs(const std::string& folder, const std::string& strategy, std::size_t count) const {
    return run(folder, {"distribute={" + strategy + "}", "train.epochs=" + std::to_string(count)});
  }

  // Epochs, each by a strategy of its own that goes on from the checkpoint of the one before. A run is of one strategy:
  // the checkpoint is handed on to a run of the next one, as its own.
  TrainResult run_by(const std::string& name, const std::vector<std::string>& strategies) const {
    TrainResult result;
    for (std::size_t epoch = 0; epoch < strategies.size(); ++epoch) {
      const std::string folder = name + std::to_string(epoch);
      if (epoch > 0) {
        epochs(folder + "-like", strategies[epoch], 1);
        Checkpoint checkpoint = checkpoints(name + std::to_string(epoch - 1)).load_latest()->checkpoint;
        checkpoint.extra["identity"] = checkpoints(folder + "-like").load_latest()->checkpoint.extra.at("identity");
        EXPECT_TRUE(checkpoints(folder).save(checkpoint).ok()) << strategies[epoch];
      }
      result = epochs(folder, strategies[epoch], epoch + 1);
    }
    return result;
  }
};

// With one worker every strategy makes the steps of a serial run: bits that differ would be state that was left behind.
TEST_F(OtherStrategies, GoOnFromEachOthersCheckpointsToTheBitsOfAStraightRun) {
  const std::vector<std::string> all = {"workers: 1", "servers: 2, strategy: async", "strategy: local_sgd, every: 2",
                                        "servers: 3, strategy: sync_server", "workers: 1"};
  const auto straight = run_by("straight", std::vector<std::string>(all.size(), "workers: 1"));
  const auto mixed = run_by("mixed", all);
  EXPECT_EQ(mixed.summary.steps, 4 * static_cast<std::int64_t>(all.size()));
  EXPECT_EQ(mixed.summary.weights_hash, straight.summary.weights_hash);
  const auto forgot =
      run("forgot", {"distribute={servers: 2, strategy: async}", "train.epochs=5", "optimizer.momentum=0"});
  EXPECT_NE(forgot.summary.weights_hash, straight.summary.weights_hash) << "control: without velocities";
}

TEST_F(OtherStrategies, GoOnWithOtherNumbersOfWorkersAndServers) {
  const auto first = run("alone", {"train.epochs=1"}).summary.loss;
  for (const auto& strategies : std::vector<std::vector<std::string>>{
           {"workers: 2", "workers: 3, servers: 2, strategy: async", "workers: 2, strategy: local_sgd, every: 2"},
           {"workers: 2, strategy: local_sgd, every: 2", "workers: 2, servers: 1, strategy: ssp", "workers: 3"},
           {"workers: 3, servers: 2, strategy: downpour, n_push: 2", "workers: 2, servers: 3, strategy: async",
            "workers: 2"}}) {
    const auto result = run_by("folder-" + std::to_string(strategies[0].size()), strategies);
    EXPECT_EQ(result.summary.steps, 3 * 4) << strategies[0];
    EXPECT_LT(result.summary.loss, first) << strategies[0] << ": what was learned stays";
  }
}

}  // namespace
}  // namespace starling::train
