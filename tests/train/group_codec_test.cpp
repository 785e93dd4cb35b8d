// Gradients inside groups in the wire form of a codec, block momentum between them, as CNTK trains.
#include <gtest/gtest.h>

#include "starling/base/error.h"
#include "starling/train/job/job_run.h"
#include "train/tiny_fashion.h"

namespace starling::train {
namespace {

class GroupCodec : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_tiny_fashion(data_.path(), 96, 40); }

  Job job(const std::string& folder, const std::string& distribute) const {
    const std::string text =
        "model: {name: mlp, hidden: [16]}\ndata: {batch: 32}\noptimizer: {name: sgd, lr: 0.05, momentum: 0.5}\n"
        "train: {epochs: 4, seed: 7, export: false}\nmonitor: {tensorboard: false}\ndistribute: " +
        distribute + "\n";
    const std::vector<std::string> set = {"data.folder=" + data_.path().string(), "distribute.threads=1",
                                          "train.folder=" + (runs_.path() / folder).string()};
    return read_job(ConfigNode::parse(text, "job.yaml", set));
  }
  static std::string groups(const std::string& codec) {
    return "{strategy: bmuf, every: 4, topology: {worker_groups: 2, workers_per_group: 2, codec: " + codec + "}}";
  }
  TrainResult run(const std::string& folder, const std::string& codec, int stop_after = 1000) const {
    TrainOptions options;
    options.progress.mode = ProgressMode::off;
    options.stop = [left = stop_after]() mutable { return left-- <= 0; };
    return run_job(job(folder, groups(codec)), options);
  }
  static double sent_inside(const TrainResult& result, std::size_t rank) {
    return result.summary.ranks.at(rank).counters.at("inside.reduced_bytes_sent").get<double>();
  }

  testing::TestFolder data_{"group-codec-data"};
  testing::TestFolder runs_{"group-codec-runs"};
};

TEST_F(GroupCodec, OneBitInsideAndBlockMomentumBetweenLearnInFewerBytes) {
  const auto dense = run("dense", "none"), coded = run("coded", "one_bit");
  EXPECT_LT(coded.summary.loss, 1.7) << "of 2.3";
  EXPECT_NE(coded.summary.weights_hash, dense.summary.weights_hash) << "a bit a value is not the gradient";
  for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_LT(sent_inside(coded, rank), 0.2 * sent_inside(dense, rank));
  EXPECT_EQ(coded.summary.ranks.at(0).counters.at("between.syncs"),
            dense.summary.ranks.at(0).counters.at("between.syncs"));
}

// The residual of every worker is in checkpoints, beside the momentum of blocks.
TEST_F(GroupCodec, ResumesToTheBitsOfAStraightRun) {
  const std::string straight = run("straight", "one_bit").summary.weights_hash;
  EXPECT_TRUE(run("broken", "one_bit", 5).stopped);
  EXPECT_EQ(run("broken", "one_bit").summary.weights_hash, straight);
}

TEST_F(GroupCodec, OfOneGroupAndOfOtherPrecisionIsRefused) {
  const auto refusal = [&](const std::string& distribute) -> std::string {
    try {
      static_cast<void>(job("refused", distribute));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(
      refusal("{topology: {worker_groups: 1, workers_per_group: 2, codec: one_bit}}").find("several worker_groups"),
      std::string::npos);
  EXPECT_NE(refusal("{strategy: bmuf, topology: {worker_groups: 2, codec: two_bit}}").find("one_bit"),
            std::string::npos);
  EXPECT_EQ(refusal(groups("one_bit")), "");
}

}  // namespace
}  // namespace starling::train
