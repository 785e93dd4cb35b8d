// Work that one rank does while the others wait for it, for much longer than the deadline: it counts as progress while
// it reports, and a save, whose progress cannot be counted, gets longer.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "starling/train/ranks/thread_watch.h"
#include "train/ranks_testing.h"
#include "train/tiny_job.h"

namespace starling {
namespace {

using namespace std::chrono_literals;
using testing::points;
using testing::RankRun;
using testing::splits;

constexpr double kDeadline = 0.4;  // seconds
constexpr auto kOnePart = 40ms;
constexpr int kParts = 35;  // together 3.5 deadlines

class ReportedWork : public train::TinyJobTest {
 protected:
  ReportedWork() : TinyJobTest("reported-work", "{name: mlp, hidden: [16]}") {}
};

// Reads a batch, and then another one.
std::vector<zoo::PretrainedLayer> read_slowly(const std::shared_ptr<const Dataset>& data) {
  TensorList out;
  for (const TensorType& field : data->fields()) {
    Shape rows = field.shape;
    rows.insert(0, 1);
    out.push_back(empty(rows, field.dtype));
  }
  const std::int64_t first[] = {0};
  for (int part = 0; part < kParts; ++part) {
    std::this_thread::sleep_for(kOnePart);
    data->gather(first, {out.data(), out.size()});
  }
  return {};
}

// Label: waits
TEST_F(ReportedWork, APreTrainingMuchLongerThanTheDeadlineIsWaitedFor) {
  train::Job job = this->job("pretrain", {"distribute.workers=2", fmt::format("distribute.deadline={}", kDeadline),
                                          "train.epochs=1", "pretrain=autoencoder"});
  Kind<zoo::Pretrainer> kind = *job.pretrain.kind->kind;
  kind.make = [](const void*) -> zoo::Pretrainer {
    return [](nn::Module&, const std::shared_ptr<const Dataset>& data, const zoo::PretrainListener&) {
      return read_slowly(data);
    };
  };
  job.pretrain.kind->kind = &kind;
  EXPECT_EQ(run(job).summary.steps, 4);
}

// A run whose ranks are supervised as those of a job.
class Supervised {
 public:
  explicit Supervised(RankRun run) : run_(std::move(run)), watch_(run_.ranks, kDeadline, nullptr) {
    run_.world = [this](int size) {
      return make_thread_comms(size, {.deadline = kNoDeadline, .progress_by_rank = watch_.progress_by_rank()});
    };
    run_.strategy = [this, make = run_.strategy](std::shared_ptr<Comm> comm) {
      watch_.join(comm->rank(), comm);
      return make(std::move(comm));
    };
  }
  std::vector<testing::RankOutcome> run() { return run_.run(); }

 private:
  RankRun run_;
  train::ThreadWatch watch_;
};

// Data set of an evaluation whose samples come slowly.
class Slow final : public Dataset {
 public:
  explicit Slow(std::shared_ptr<const Dataset> data) : data_(std::move(data)) {}
  std::int64_t size() const override { return data_->size(); }
  std::vector<TensorType> fields() const override { return data_->fields(); }
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override {
    std::this_thread::sleep_for(kOnePart);
    data_->gather(rows, out);
  }

 private:
  std::shared_ptr<const Dataset> data_;
};

// Has no sums: whoever tells it must see every batch.
class BatchesSeen final : public Metric {
 public:
  void add(const Judged&) override { ++batches_; }
  double value() const override { return batches_; }
  void reset() override { batches_ = 0; }

 private:
  int batches_ = 0;
};

// Label: waits
TEST_F(ReportedWork, AnEvaluationByOneRankMuchLongerThanTheDeadlineIsWaitedFor) {
  RankRun run;
  run.data = splits(points(32), std::make_shared<Slow>(points(kParts)));
  run.options = {.epochs = 1, .batch = 16, .evaluate_batch = 1};
  run.each = [](TrainerOptions& options) {
    options.metrics = {{.name = "seen", .metric = std::make_shared<BatchesSeen>()}};
  };
  for (const auto& outcome : Supervised(std::move(run)).run())
    EXPECT_EQ(outcome.result.summary.metrics.at("seen"), kParts) << "all of them by rank 0";
}

// A disk that takes several deadlines for each checkpoint.
void expect_saved(CheckpointsOptions how, const std::string& folder, const AllReduceOptions& reduced = {}) {
  const testing::TestFolder runs("reported-work-saves");
  how.folder = runs.path() / "c";
  how.before_publishing = [](std::int64_t) { std::this_thread::sleep_for(kParts * kOnePart); };
  RankRun run;
  run.data = splits(points(32), points(16));
  run.options = {.epochs = 1, .batch = 16};
  run.strategy = [reduced](std::shared_ptr<Comm> comm) { return allreduce(std::move(comm), reduced); };
  run.callbacks = [&](Trainer& trainer, int) { trainer.add(checkpoints(how)); };
  Supervised(std::move(run)).run();
  EXPECT_EQ(CheckpointFolder(runs.path() / folder).load_latest().value().checkpoint.step, 2);
}

// Label: waits
TEST_F(ReportedWork, ASaveMuchLongerThanTheDeadlineIsWaitedFor) { expect_saved({.background = false}, "c"); }

// Label: waits
TEST_F(ReportedWork, ASaveOfTheBestMuchLongerThanTheDeadlineIsWaitedFor) {
  expect_saved({.best = "loss", .background = false}, "c-best");
}

// With weights in pieces the other rank waits for the hash of all that was trained.
// Label: waits
TEST_F(ReportedWork, ASaveInTheBackgroundMuchLongerThanTheDeadlineIsWaitedForAtTheEnd) {
  expect_saved({.background = true}, "c", {.zero = 3});
}

}  // namespace
}  // namespace starling
