// Ranks of a run that hold up the others: hung threads, slow disks, stops inside evaluations.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "starling/dist/strategy/easgd.h"
#include "starling/dist/strategy/local_sgd.h"
#include "starling/train/ranks/thread_watch.h"
#include "train/ranks_testing.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using testing::points;
using testing::quiet;
using testing::RankRun;
using testing::splits;

// Label: waits
TEST(ThreadWatch, ARankWithoutProgressIsNamedByThoseThatWait) {
  std::atomic<bool> over = false;
  train::ThreadWatch watch(3, 0.3, nullptr);
  auto comms = make_thread_comms(3, {.deadline = kNoDeadline, .progress_by_rank = watch.progress_by_rank()});
  std::vector<std::shared_ptr<Comm>> shared;
  for (auto& comm : comms) shared.push_back(std::move(comm));
  std::vector<std::string> errors(3);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 3; ++rank) watch.join(rank, shared[static_cast<std::size_t>(rank)]);
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto own = static_cast<std::size_t>(rank);
      try {
        shared[own]->barrier().wait();
        while (rank == 2 && !over) std::this_thread::sleep_for(milliseconds(1));
        shared[own]->barrier().wait();
      } catch (const Error& error) {
        errors[own] = error.what();
        over = true;
      }
      watch.leave(rank);
    });
  }
  ranks.clear();
  for (const auto& error : errors)
    EXPECT_NE(error.find("[supervision] rank 2 before its first step: no progress for 0."), std::string::npos) << error;
}

// Label: waits
TEST(ThreadWatch, ARankThatReportsIsWaitedFor) {
  train::ThreadWatch watch(2, 0.2, nullptr);
  const auto comms = make_thread_comms(2, {.deadline = kNoDeadline, .progress_by_rank = watch.progress_by_rank()});
  run_ranks(comms, [&](Comm& comm) {
    watch.join(comm.rank(), std::shared_ptr<Comm>(&comm, [](Comm*) {}));
    for (int i = 0; comm.rank() == 1 && i < 50; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      comm.rank_progress()->progress();
    }
    comm.barrier().wait();
    watch.leave(comm.rank());
  });
}

// Label: waits
TEST(ThreadWatch, TellsWhenAHungRankDoesNotComeBack) {
  std::mutex mutex;
  std::condition_variable told;
  std::string finding;
  train::ThreadWatch watch(2, 0.1, [&](const std::string& text) {
    const std::scoped_lock lock(mutex);
    finding = text;
    told.notify_all();
  });
  const auto comms = make_thread_comms(2, {.deadline = kNoDeadline, .progress_by_rank = watch.progress_by_rank()});
  std::vector<std::shared_ptr<Comm>> shared;
  for (const auto& comm : comms) shared.emplace_back(comm.get(), [](Comm*) {});
  const auto body = [&](Comm& comm) {
    watch.join(comm.rank(), shared[static_cast<std::size_t>(comm.rank())]);
    if (comm.rank() == 0) return comm.barrier().wait();
    std::unique_lock lock(mutex);
    told.wait_for(lock, std::chrono::seconds(20), [&] { return !finding.empty(); });
  };
  EXPECT_THROW(run_ranks(comms, body), Error);
  EXPECT_NE(finding.find("[supervision] rank 1"), std::string::npos) << finding;
}

using Strategies = std::vector<testing::MakeStrategy>;

// A disk on which the first save lasts until many later steps are done: nobody may wait for it.
class SlowDisk : public ::testing::Test {
 protected:
  // Trains for three epochs of ten steps. Returns what rank 0 tells; `ranks` gets what became of all.
  std::string run(RankRun run, CheckpointsOptions how, std::int64_t until) {
    std::ostringstream told;
    run.data = splits(points(160), points(48));
    run.options.epochs = 3;
    run.options.batch = 16;
    run.each = [&](TrainerOptions& of_rank) {
      if (thread_rank() == 0) of_rank.progress.out = &told;
    };
    how.folder = folder_.path() / "c";
    how.before_publishing = [this, until](std::int64_t saved) { publish(saved, until); };
    run.callbacks = [&](Trainer& trainer, int rank) {
      if (rank == 0) trainer.add(after_step([&](starling::Run& now) { reach(now.state().step); }));
      trainer.add(checkpoints(how));
    };
    ranks_ = run.run();
    return told.str();
  }

  void reach(std::int64_t step) {
    const std::scoped_lock lock(mutex_);
    step_ = step;
    changed_.notify_all();
  }
  void publish(std::int64_t saved, std::int64_t until) {
    std::unique_lock lock(mutex_);
    if (written_.empty()) in_time_ = changed_.wait_for(lock, std::chrono::seconds(20), [&] { return step_ >= until; });
    written_.push_back(saved);
  }

  testing::TestFolder folder_{"slow-disk"};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t step_ = 0;
  bool in_time_ = true;
  std::vector<std::int64_t> written_;
  std::vector<testing::RankOutcome> ranks_;
};

// The states of ranks that are apart are lent to rank 0 while it saves: all leave the save out together.
// Label: waits
TEST_F(SlowDisk, ASaveUnderWayIsNotWaitedForAndTheLastStateIsSaved) {
  const Strategies strategies = {
      [](std::shared_ptr<Comm> comm) { return allreduce(std::move(comm)); },
      [](std::shared_ptr<Comm> comm) { return allreduce(std::move(comm), {.zero = 3}); },
      [](std::shared_ptr<Comm> comm) {
        return std::make_shared<LocalSgd>(std::move(comm), LocalSgdOptions{.every = 64});
      },
      [](std::shared_ptr<Comm> comm) { return std::make_shared<Easgd>(std::move(comm), EasgdOptions{.every = 64}); },
  };
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    SCOPED_TRACE(i);
    folder_.clear();
    written_.clear();
    step_ = 0;
    RankRun how;
    how.strategy = strategies[i];
    const std::string told = run(std::move(how), {}, 25);
    EXPECT_TRUE(in_time_);
    EXPECT_EQ(std::set<std::int64_t>(written_.begin(), written_.end()), (std::set<std::int64_t>{10, 30}));
    EXPECT_NE(told.find("warning: no checkpoint of step 20: the save before it is still being written"),
              std::string::npos)
        << told;
    EXPECT_EQ(CheckpointFolder(folder_.path() / "c").load_latest().value().checkpoint.step, 30);
  }
}

// Label: waits
TEST_F(SlowDisk, TheBestStateIsNotWaitedForWithoutEnd) {
  RankRun how;
  how.rate = 0.01;
  const std::string told = run(std::move(how), {.best = "loss"}, 25);
  EXPECT_TRUE(in_time_);
  EXPECT_NE(told.find("warning: no checkpoint of the best loss at step 20: the one before it is still being written"),
            std::string::npos)
      << told;
  EXPECT_EQ(CheckpointFolder(folder_.path() / "c-best").load_latest().value().checkpoint.step, 30)
      << "what is better than the one before is saved later";
}

// Data set of an evaluation, which asks for a stop while it is read.
class Asking final : public Dataset {
 public:
  Asking(std::shared_ptr<const Dataset> data, std::atomic<int>& read) : data_(std::move(data)), read_(read) {}
  std::int64_t size() const override { return data_->size(); }
  std::vector<TensorType> fields() const override { return data_->fields(); }
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override {
    ++read_;
    std::this_thread::sleep_for(milliseconds(1));
    data_->gather(rows, out);
  }

 private:
  std::shared_ptr<const Dataset> data_;
  std::atomic<int>& read_;
};

// Label: waits
TEST(Stops, InsideAnEvaluationEndItOnAllRanksAlikeAndTheRunGoesOnFromThere) {
  const Strategies strategies = {
      [](std::shared_ptr<Comm> comm) { return std::shared_ptr<dist::RankStrategy>(allreduce(std::move(comm))); },
      [](std::shared_ptr<Comm> comm) {
        return std::make_shared<LocalSgd>(std::move(comm), LocalSgdOptions{.every = 2});
      },
  };
  for (const auto& strategy : strategies) {
    for (const int asked : {0, 1}) {
      const testing::TestFolder folder("stops");
      std::atomic<int> read{0};
      std::atomic<bool> stops{true};
      RankRun run;
      run.strategy = strategy;
      run.data = splits(points(64), std::make_shared<Asking>(points(200), read));
      run.options = {.epochs = 2, .batch = 16, .evaluate_batch = 1};
      run.callbacks = [&](Trainer& trainer, int) { trainer.add(checkpoints({.folder = folder.path() / "c"})); };
      run.options.stop = [&, asked] { return thread_rank() == asked && stops && read > 10; };
      const auto left = run.run();
      EXPECT_TRUE(left[0].result.interrupted && left[1].result.interrupted);
      EXPECT_LT(read, 100) << "the evaluation went on";
      stops = false;
      const auto rest = run.run();
      EXPECT_FALSE(rest[0].result.interrupted);
      RankRun straight = run;
      straight.callbacks = nullptr;
      EXPECT_EQ(rest[0].hash, straight.run()[0].hash);
    }
  }
}

}  // namespace
}  // namespace starling
