// Networks that no process may hold: each process of a run is under a cap below the state of the whole, or below the
// weights themselves, from the first number drawn to the exported model.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/tiny_job.h"

namespace starling::testing {
namespace {

class CliMemory : public TinyJob {
 protected:
  CliMemory() : TinyJob("cli-memory") {}

  // Ranks have no swap to hide in: what they may allocate, in MB, is all there is.
  Ran launch(int ranks, const std::string& before, const std::string& more) const {
    return run_shell_in(folder_.path(), before + " starling launch -n " + std::to_string(ranks) + " " + job() +
                                            " --progress off --set distribute.threads=1 --set distribute.backend=gloo" +
                                            " --set monitor.tensorboard=false --set train.save_memory=0 " + more);
  }
  nlohmann::json summary() const { return nlohmann::json::parse(file_text(run() / "summary.json")); }
};

// 8.6 MB of weights, with Adam's state and gradients that are added up 34 MB.
constexpr const char* kState =
    "--set model.hidden=[512,512,512,512,512,512,512,512] --set optimizer.name=adam --set train.accumulate=2 --set "
    "train.epochs=1 --set data.eval_batch=30 --set train.export=true --set train.best=loss";

// Label: full
TEST_F(CliMemory, ZeroTrainsUnderACapBelowTheStateOfTheWholeWherePlainDataParallelismEnds) {
  const std::string cap = std::string(kState) + " --set train.memory_mb=24 --set distribute.zero=";
  const Ran pieces = launch(4, "", cap + "3");
  ASSERT_EQ(pieces.code, 0) << pieces.err;
  const nlohmann::json told = summary();
  double state = 0;
  for (const auto& rank : told.at("ranks")) {
    for (const char* kind : {"weight_bytes", "gradient_bytes", "optimizer_bytes"})
      state += rank.at("counters").at(kind).get<double>();
  }
  EXPECT_GT(state, 30 * (1 << 20)) << "the cap is below it";
  EXPECT_LT(told.at("peak_bytes").get<double>(), 24 * (1 << 20));
  EXPECT_TRUE(std::filesystem::exists(run() / "model" / "weights.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(run() / "checkpoints-best"));
  const Ran resumed = launch(4, "", cap + "3 --set train.epochs=2");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  std::filesystem::remove_all(run());
  const Ran plain = launch(4, "", cap + "0");
  EXPECT_NE(plain.code, 0);
  for (const char* part : {"allowed on cpu", "zero: 3 makes it", "below the 24 MB of train.memory_mb: "})
    EXPECT_TRUE(has(plain.err + plain.out, part)) << part << " in " << plain.err;
}

// A gigabyte of weights, gradients and momentum, in processes whose addresses, with code and stacks, are 830 MB.
// Label: full
TEST_F(CliMemory, ANetworkThatNoProcessMayHoldTrainsModelParallel) {
  const std::string net =
      " --set model.hidden=[9000,9000] --set optimizer.name=sgd --set optimizer.lr=0.01 --set train.epochs=2";
  const std::string cap = "ulimit -v 850000; ";
  const Ran split =
      launch(4, cap + "timeout 240", net + " --set 'distribute.mesh={model: 4}' --set distribute.layout=singa_feature");
  ASSERT_EQ(split.code, 0) << split.err << split.out;
  const nlohmann::json told = summary();
  ASSERT_EQ(told.at("ranks").size(), 4U);
  for (const auto& rank : told.at("ranks"))
    EXPECT_LT(rank.at("counters").at("weight_bytes").get<double>(), 1.05 / 4 * 4 * (784 + 9000 + 10) * 9000.0);
  EXPECT_LT(told.at("metrics").at("test_loss").get<double>(), 2.0) << "it learns; ten classes begin at 2.3";
  const Ran alone = run_shell_in(folder_.path(), cap + "timeout 240 starling train " + job() + " --progress off" + net +
                                                     " --set train.folder=alone");
  EXPECT_NE(alone.code, 0) << "the control: one process cannot hold it";
}

// COTS: filters of their own at every position, 376 MB of them, with gradients and momentum more than a gigabyte, in
// four processes whose addresses are 850 MB and of whose tensors 350 MB may be there at once: less than the weights.
// Label: full
TEST_F(CliMemory, FiltersThatNoProcessMayHoldTrainWhereTheirPositionsAre) {
  const std::string net =
      " --set 'model={name: local_image, classes: 10, maps: 120, stages: 2, kernel: 5, pool: 5}' --set "
      "optimizer.name=sgd --set optimizer.lr=0.05 --set optimizer.momentum=0.9 --set train.epochs=3 --set "
      "train.memory_mb=350";
  const std::string cap = "ulimit -v 850000; ";
  const Ran split =
      launch(4, cap + "timeout 280", net + " --set 'distribute.mesh={model: 4}' --set distribute.layout=cots");
  ASSERT_EQ(split.code, 0) << split.err << split.out;
  const nlohmann::json told = summary();
  ASSERT_EQ(told.at("ranks").size(), 4U);
  const double filters = 4.0 * (576.0 * 120 * 25 + 256.0 * 120 * 3000);
  EXPECT_GT(filters, 350 * (1 << 20)) << "the cap is below the weights";
  for (const auto& rank : told.at("ranks"))
    EXPECT_LT(rank.at("counters").at("weight_bytes").get<double>(), 1.05 / 4 * filters + 4 * 11 * 120 * 144);
  EXPECT_LT(told.at("peak_bytes").get<double>(), 350 * (1 << 20));
  EXPECT_LT(told.at("metrics").at("test_loss").get<double>(), 2.0) << "it learns; ten classes begin at 2.3";
  const Ran alone = run_shell_in(folder_.path(), cap + "timeout 240 starling train " + job() + " --progress off" + net +
                                                     " --set train.folder=alone");
  EXPECT_NE(alone.code, 0) << "the control: one process cannot hold it";
  EXPECT_TRUE(has(alone.err + alone.out, "memory_mb")) << alone.err;
}

}  // namespace
}  // namespace starling::testing
