// Jobs whose process may hold only so many bytes of tensors.
#include <gtest/gtest.h>

#include "starling/tensor/allocator.h"
#include "starling/tensor/out_of_memory.h"
#include "starling/train/job/job_run.h"
#include "train/tiny_fashion.h"

namespace starling::train {
namespace {

class MemoryLimit : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_tiny_fashion(data_.path(), 64, 32); }

  TrainResult run(const std::string& folder, std::vector<std::string> set) const {
    const std::string text =
        "model: {name: mlp, hidden: [768, 768]}\ndata: {batch: 32}\noptimizer: {name: adam, lr: 0.001}\n"
        "train: {epochs: 1, seed: 7, accumulate: 2, export: false, save_memory: 0}\nmonitor: {tensorboard: false}\n";
    set.push_back("data.folder=" + data_.path().string());
    set.push_back("train.folder=" + (runs_.path() / folder).string());
    set.push_back("distribute.threads=1");
    set.push_back("distribute.workers=2");
    TrainOptions options;
    options.progress.mode = ProgressMode::off;
    return run_job(read_job(ConfigNode::parse(text, "job.yaml", set)), options);
  }

  testing::TestFolder data_{"memory-limit-data"};
  testing::TestFolder runs_{"memory-limit-runs"};
};

TEST_F(MemoryLimit, EndsARunAndTellsWhatWouldFit) {
  Allocator& memory = allocator(kCpu);
  memory.reset_peak();
  const std::string hash = run("free", {"distribute.zero=3"}).summary.weights_hash;
  const std::int64_t most = memory.stats().peak_bytes;
  const std::string limit = "train.memory_mb=" + std::to_string((most * 5 / 4 >> 20) + 1);
  EXPECT_EQ(run("three", {"distribute.zero=3", limit}).summary.weights_hash, hash);
  std::string told;
  try {
    run("plain", {limit});
  } catch (const OutOfMemory& error) {
    told = error.what();
  }
  for (const char* part : {"allowed on cpu", "state of the 2 workers of this process is", "zero: 1 makes it",
                           "of train.memory_mb: ", "zero: 3"})
    EXPECT_NE(told.find(part), std::string::npos) << part << " in: " << told;
  EXPECT_NO_THROW(run("again", {})) << "the limit is the run's";
}

}  // namespace
}  // namespace starling::train
