// A run for tests/cli/tensorboard_run_test.py: stopped, its newest checkpoint and the tail of its event file removed,
// and resumed.
#include <gtest/gtest.h>

#include <cstdlib>

#include "starling/nn/layers.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/monitor/monitor.h"
#include "train/trainer_testing.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;

// Pictures of 8 x 8 pixels with a bright band of rows that tells the class.
std::shared_ptr<const Dataset> bands(std::int64_t count) {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  std::uint32_t noise = 7;
  for (std::int64_t i = 0; i < count; ++i) {
    y.push_back(i % 4);
    for (std::int64_t pixel = 0; pixel < 64; ++pixel) {
      noise = noise * 1664525U + 1013904223U;
      x.push_back(static_cast<float>(noise >> 8) / static_cast<float>(1 << 24) + (pixel / 16 == i % 4 ? 0.5F : 0.0F));
    }
  }
  return std::make_shared<TensorDataset>(
      std::vector<Tensor>{from_host<float>(x, {count, 1, 8, 8}), from_host<std::int64_t>(y, {count})});
}

// 300 samples in batches of 20: fifteen steps an epoch, sixty in all.
void train(const fs::path& folder, std::int64_t steps) {
  manual_seed(3);
  nn::Sequential net;
  net.add("flatten", nn::Flatten()).add("fc1", nn::Linear({.in = 64, .out = 32})).add("relu", nn::Relu());
  net.add("fc2", nn::Linear({.in = 32, .out = 4}));
  optim::Sgd optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  Trainer trainer(net, optimizer, classify(),
                  testing::quiet({.epochs = 4, .steps = steps, .batch = 20, .folder = folder}));
  trainer.add(monitor({.scalars_every = 5, .histograms_every = 10, .activations = {"*"}},
                      {.parameters = {{"optimizer.momentum", 0.9}, {"model.name", "bands"}, {"model.dropout", false}},
                       .job = "optimizer: {momentum: 0.9}"}));
  trainer.add(checkpoints({.every_steps = 10, .keep = 10}));
  trainer.fit(bands(300), bands(40));
}

TEST(MonitorRun, WritesARunForTheTensorBoardTest) {
  const char* where = std::getenv("STARLING_MONITOR_RUN");
  if (where == nullptr) GTEST_SKIP() << "STARLING_MONITOR_RUN names no folder";
  if (!has_event_writer()) GTEST_SKIP() << "built without protobuf";
  const fs::path folder = where;
  train(folder, 40);
  ASSERT_EQ(fs::remove_all(folder / "checkpoints" / "step-00000040") > 0, true);
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().find("tfevents") == std::string::npos) continue;
    fs::resize_file(entry.path(), fs::file_size(entry.path()) - 7);
  }
  train(folder, 60);
}

}  // namespace
}  // namespace starling::train
