// Values that are not finite on a worker beside parameter servers: what each setting of train.non_finite makes of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "starling/base/error.h"
#include "starling/dist/ps/wire.h"
#include "starling/nn/linear.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/unary.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/job/job_run.h"
#include "train/tiny_fashion.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;

// A linear map, and a term that is finite everywhere while its gradient is 0 · ∞ where the first feature is 0:
// d sqrt(x · |w|²) / dw.
class Delicate : public nn::Module {
 public:
  Delicate() : map_(add_module("map", std::make_shared<nn::Linear>(nn::LinearOptions{.in = 2, .out = 2}))) {}

 protected:
  Tensor forward(const Tensor& x) override {
    const Tensor first = sum(mul(x, from_host<float>(std::vector<float>{1, 0}, {2})), {.axes = {1}, .keepdim = true});
    const Tensor term = sqrt(mul(first, sum(mul(map_->weight(), map_->weight()))));
    return add((*map_)(x), mul(term, 1e-3));
  }

 private:
  std::shared_ptr<nn::Linear> map_;
};

constexpr int kRows = 128, kBatch = 16;
constexpr int kPoisoned = 46;  // row of the second half of batch 3

struct Ended {
  std::string error{}, told{};
  TrainResult result{};
};

class ServersNotFinite : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!dist::ps::has_wire()) GTEST_SKIP() << "built without ZeroMQ";
  }

  // Rows whose first feature is 0 have a gradient that is not finite, and those without one a loss that is not.
  std::string table(const std::string& name, const std::function<std::string(int)>& first) const {
    const fs::path path = data_.path() / (name + ".csv");
    std::ofstream file(path);
    file << "a,b,kind\n";
    for (int i = 0; i < kRows; ++i) file << first(i) << ',' << i % 5 << ',' << i % 2 << '\n';
    return path.string();
  }
  std::string poisoned() const {
    return table("poisoned", [](int row) { return row == kPoisoned ? "0" : "1"; });
  }
  std::string all_poisoned() const {
    return table("all", [](int) { return "0"; });
  }
  std::string missing() const {
    return table("missing", [](int row) { return row == kPoisoned ? "" : "1"; });
  }

  Ended train(const std::string& distribute, const std::string& verdict, const std::string& file, int epochs = 1,
              int checkpoint_every = 0) {
    const std::string text = fmt::format(
        "model: {{name: mlp}}\n"
        "data: {{name: csv, label: kind, missing: nan, train: ['{0}'], test: ['{0}'], batch: {1}, shuffle: false}}\n"
        "optimizer: {{lr: 0.01}}\n"
        "train: {{folder: '{2}', epochs: {3}, seed: 7, export: false, non_finite: {4}, checkpoint_every: {6}}}\n"
        "distribute: {{threads: 1, {5}}}\nmonitor: {{tensorboard: false}}\n",
        file, kBatch, (runs_.path() / std::to_string(number_++)).string(), epochs, verdict, distribute,
        checkpoint_every);
    Ended ended;
    std::ostringstream out;
    TrainOptions options;
    options.make_net = [] { return std::make_shared<Delicate>(); };
    options.progress = {.mode = ProgressMode::plain, .out = &out};
    try {
      ended.result = run_job(read_job(ConfigNode::parse(text, "job.yaml", {})), options);
    } catch (const Error& error) {
      ended.error = error.what();
    }
    ended.told = out.str();
    return ended;
  }
  static double counted(const Ended& ended, const std::string& name) {
    double sum = 0;
    for (const auto& rank : ended.result.summary.ranks) sum += rank.counters.value(name, 0.0);
    return sum;
  }
  static bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
  std::vector<std::int64_t> saved() const {
    return CheckpointFolder(runs_.path() / std::to_string(number_ - 1) / "checkpoints").steps();
  }

 private:
  testing::TestFolder data_{"not-finite-data"};
  testing::TestFolder runs_{"not-finite-runs"};
  int number_ = 0;
};

const char* const kWays[] = {
    "workers: 2, servers: 2, strategy: sync_server",
    "workers: 2, servers: 2, strategy: async",
    "workers: 2, servers: 2, strategy: ssp",
    "workers: 2, servers: 2, strategy: downpour, n_push: 2",
    "workers: 2, servers: 2, strategy: sync_server, codec: one_bit",
};

bool in_turn(const std::string& way) { return way.find("sync_server") != std::string::npos; }

// Workers make updates of their own: `auto` is `stop`, as for other strategies of which that is true.
TEST_F(ServersNotFinite, StopAndAutoEndTheRunInTheStepNamingParameterAndWorker) {
  for (const std::string verdict : {"stop", "auto"}) {
    for (const std::string way : kWays) {
      const Ended ended = train(way, verdict, poisoned(), 1, 1);
      const std::string expected = "expected finite gradients, got the gradient of 'map.weight' on worker ";
      EXPECT_TRUE(says(ended.error, expected)) << way << ": " << ended.error;
      // Workers in turn make their own parts of a batch; others' portions are counted in the order they are done in.
      if (in_turn(way)) {
        EXPECT_TRUE(says(ended.error, expected + "1 that is not at step 3 (epoch 1)")) << way << ": " << ended.error;
      }
      const auto at = ended.error.find(" at step ");
      ASSERT_NE(at, std::string::npos) << way << ": " << ended.error;
      const int step = std::stoi(ended.error.substr(at + 9));
      // Whether the workers pause for one before that step is a matter of time.
      for (const std::int64_t save : saved()) EXPECT_LT(save, step) << way << ": a checkpoint is of good steps";
    }
  }
}

TEST_F(ServersNotFinite, SkipLeavesThePushOutTellsItOnceAndCountsAll) {
  for (const std::string way : kWays) {
    const Ended ended = train(way, "skip", poisoned(), 3);
    ASSERT_EQ(ended.error, "") << way;
    EXPECT_EQ(ended.result.summary.steps, 3 * kRows / kBatch) << way;
    EXPECT_EQ(ended.result.summary.skipped, 3) << way << ": one step of each epoch";
    EXPECT_EQ(counted(ended, "not_finite"), 3) << way;
    EXPECT_TRUE(std::isfinite(ended.result.summary.loss)) << way;
    const std::string warning = "warning: the gradient of 'map.weight' on worker ";
    const auto at = ended.told.find(warning);
    ASSERT_NE(at, std::string::npos) << way << ": " << ended.told;
    if (in_turn(way)) {
      EXPECT_TRUE(says(ended.told, warning + "1 is not finite at step 3")) << ended.told;
    }
    EXPECT_EQ(ended.told.find(warning, at + 1), std::string::npos) << "told once: " << ended.told;
  }
  const Ended fine = train(kWays[0], "skip", table("fine", [](int) { return "1"; }));
  EXPECT_EQ(fine.result.summary.skipped, 0) << "control";
  EXPECT_EQ(counted(fine, "not_finite"), 0);
  EXPECT_FALSE(says(fine.told, "warning")) << fine.told;
}

// The worker's portion is left out: the others' make the step.
TEST_F(ServersNotFinite, SkipMakesTheStepOfWhatIsLeft) {
  const Ended async = train(kWays[1], "skip", poisoned());
  EXPECT_EQ(counted(async, "pushes"), 2 * kRows / kBatch - 1);
  const Ended sync = train(kWays[0], "skip", poisoned());
  EXPECT_EQ(counted(sync, "servers.updates"), counted(sync, "servers.keys") * kRows / kBatch);
}

TEST_F(ServersNotFinite, SkipGivesUpWhereNoStepIsLeft) {
  const Ended ended = train(kWays[0], "skip", all_poisoned(), 10);
  EXPECT_TRUE(says(ended.error, "expected a step with finite gradients now and then, got 50 in a row without"))
      << ended.error;
  EXPECT_TRUE(says(ended.error, "'map.weight'")) << ended.error;
}

// Servers take what they are given, and a later loss shows it.
TEST_F(ServersNotFinite, IgnorePushesAndEndsByALaterLoss) {
  for (const std::string way : {kWays[0], kWays[1]}) {
    const Ended ended = train(way, "ignore", poisoned());
    EXPECT_TRUE(says(ended.error, "expected a finite loss, got a loss on worker ")) << way << ": " << ended.error;
  }
}

TEST_F(ServersNotFinite, RollbackIsRefused) {
  EXPECT_TRUE(says(train(kWays[1], "rollback", poisoned()).error, "another train.non_finite than rollback with async"));
}

// A loss ends the run, whoever looks at gradients; with `skip` the step goes without it.
TEST_F(ServersNotFinite, ALossThatIsNotFiniteIsJudgedTheSameWay) {
  for (const std::string verdict : {"auto", "stop", "ignore"}) {
    const Ended ended = train(kWays[0], verdict, missing());
    EXPECT_TRUE(says(ended.error, "expected a finite loss, got a loss on worker 1 that is not at step 3 (epoch 1)"))
        << verdict << ": " << ended.error;
  }
  const Ended skipped = train(kWays[0], "skip", missing());
  ASSERT_EQ(skipped.error, "");
  EXPECT_EQ(skipped.result.summary.skipped, 1);
  EXPECT_EQ(counted(skipped, "not_finite"), 1);
  EXPECT_TRUE(says(skipped.told, "warning: a loss on worker 1 is not finite at step 3")) << skipped.told;
}

TEST_F(ServersNotFinite, AGroupIsJudgedAsOne) {
  const std::string groups =
      "strategy: async, topology: {worker_groups: 1, workers_per_group: 2, server_groups: 1, servers_per_group: 2}";
  for (const std::string verdict : {"stop", "auto"}) {
    const Ended ended = train(groups, verdict, poisoned());
    EXPECT_TRUE(says(ended.error,
                     "expected finite gradients, got the gradient of 'map.weight' on group 0 that is not at step 3"))
        << ended.error;
  }
  const Ended skipped = train(groups, "skip", poisoned());
  ASSERT_EQ(skipped.error, "");
  EXPECT_EQ(skipped.result.summary.skipped, 1);
  EXPECT_EQ(counted(skipped, "not_finite"), 1);
  EXPECT_EQ(counted(skipped, "pushes"), kRows / kBatch - 1);
  EXPECT_TRUE(says(train(groups, "ignore", poisoned()).error, "expected a finite loss, got a loss on group 0"));
}

}  // namespace
}  // namespace starling::train
