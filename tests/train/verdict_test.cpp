// A non-finite gradient on one rank: all ranks reach the same verdict in the same step.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <numeric>
#include <set>

#include "dist/gloo/gloo_worlds.h"
#include "starling/base/error.h"
#include "starling/dist/strategy/backup_workers.h"
#include "starling/dist/strategy/grouped.h"
#include "starling/dist/strategy/hogwild.h"
#include "starling/dist/strategy/local_sgd.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/unary.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/ranks/link.h"
#include "train/ranks_testing.h"

namespace starling::train {
namespace {

using testing::points;
using testing::RankOutcome;
using testing::RankRun;
using testing::splits;

constexpr std::int64_t kBatch = 16;
constexpr std::int64_t kRows = 8 * kBatch;
constexpr std::int64_t kPoisonedStep = 4;  // counted from 1

// Samples with a third field, 1, but 0 in one row: the last of the batch of kPoisonedStep, which is the last rank's.
std::shared_ptr<const Dataset> poisoned(std::int64_t row = (kPoisonedStep * kBatch) - 1) {
  const auto clean = points(kRows);
  std::vector<float> marks(static_cast<std::size_t>(kRows), 1.0F);
  if (row >= 0) marks[static_cast<std::size_t>(row)] = 0.0F;
  std::vector<std::int64_t> rows(marks.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<Tensor> fields{empty({kRows, 8}, DType::f32), empty({kRows}, DType::i64)};
  clean->gather(rows, fields);
  fields.push_back(from_host<float>(marks, {kRows}));
  return std::make_shared<TensorDataset>(std::move(fields));
}

// The classifier's loss, and a term whose value is finite everywhere while its gradient is 0 · ∞ where the mark is 0:
// d sqrt(m · |w|²) / dw.
ObjectivePtr delicate() {
  return own_objective([](nn::Module& net, std::span<const Tensor> fields) {
    const Tensor logits = net(fields[0]);
    const Tensor weight = net.parameters()[0];
    const Tensor term = mean(sqrt(mul(fields[2], sum(mul(weight, weight)))));
    return Objective::Outputs{.loss = add(cross_entropy(logits, fields[1]), mul(term, 1e-3)), .prediction = logits};
  });
}

RankRun recipe(int ranks, NonFinite verdict, std::int64_t row = (kPoisonedStep * kBatch) - 1) {
  RankRun made{.ranks = ranks, .options = {.epochs = 1, .batch = kBatch}, .data = splits(poisoned(row))};
  made.options.loader.shuffle = false;
  made.options.non_finite = verdict;
  made.options.hash_every = 1;  // a rank that decided otherwise would be named
  made.objective = delicate();
  return made;
}

struct Ended {
  std::string error{};
  std::vector<std::string> errors{};  // of all ranks
  std::vector<std::int64_t> steps{};  // steps finished by each rank
  std::vector<std::set<std::int64_t>> skipped{};
  std::vector<RankOutcome> outcomes{};
  bool finite_weights = true;
};

// Runs a recipe and records what every rank saw.
Ended end_of(RankRun run) {
  Ended ended;
  ended.steps.resize(static_cast<std::size_t>(run.ranks));
  ended.skipped.resize(ended.steps.size());
  std::mutex mutex;
  run.options.failed = [&](std::string_view why) {
    const std::scoped_lock lock(mutex);
    ended.errors.emplace_back(why);
  };
  run.callbacks = [&](Trainer& trainer, int rank) {
    trainer.add(after_step([&, rank](starling::Run& now) {
      const std::scoped_lock lock(mutex);
      ended.steps[static_cast<std::size_t>(rank)] = now.state().step;
      if (now.last().skipped) ended.skipped[static_cast<std::size_t>(rank)].insert(now.state().step);
      const dist::ShardedState* pieces = now.link() ? now.link()->strategy().sharded() : nullptr;
      for (const auto& parameter : now.net().parameters()) {
        const Tensor here = pieces ? pieces->local(parameter) : parameter;
        for (const double value : here.to_vector()) ended.finite_weights &= std::isfinite(value);
      }
    }));
  };
  try {
    ended.outcomes = run.run();
  } catch (const Error& error) {
    ended.error = error.what();
  }
  return ended;
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Way {
  const char* name;
  testing::MakeStrategy make;
};
std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }

// Ranks that share every update.
const Way kShared[] = {
    {"allreduce", [](auto comm) { return allreduce(std::move(comm)); }},
    {"deterministic", [](auto comm) { return allreduce(std::move(comm), {.deterministic = true, .shards = 4}); }},
    {"one_bucket_each", [](auto comm) { return allreduce(std::move(comm), {.overlap = false, .bucket_mb = 0}); }},
    {"one_bit", [](auto comm) { return allreduce(std::move(comm), {.codec = dist::CodecChoice::parse("one_bit")}); }},
    {"zero_1", [](auto comm) { return allreduce(std::move(comm), {.zero = 1}); }},
    {"zero_2", [](auto comm) { return allreduce(std::move(comm), {.zero = 2}); }},
    {"zero_3", [](auto comm) { return allreduce(std::move(comm), {.zero = 3}); }},
    {"top_k", [](auto comm) { return allreduce(std::move(comm), {.codec = dist::CodecChoice::parse("top_k")}); }},
};
// Ranks with separate updates.
const Way kApart[] = {
    {"backup_workers",
     [](auto comm) { return std::make_shared<BackupWorkers>(std::move(comm), BackupWorkersOptions{.backups = 0}); }},
    {"local_sgd", [](auto comm) { return std::make_shared<LocalSgd>(std::move(comm), LocalSgdOptions{.every = 2}); }},
    {"hogwild", [](auto comm) { return std::make_shared<Hogwild>(std::move(comm), HogwildOptions{}); }},
};

class SharedVerdict : public ::testing::TestWithParam<Way> {};

TEST_P(SharedVerdict, EndsAllRanksInTheStepOfTheGradient) {
  for (const int ranks : {2, 3}) {
    RankRun run = recipe(ranks, NonFinite::stop);
    run.strategy = GetParam().make;
    const Ended ended = end_of(run);
    EXPECT_EQ(ended.errors.size(), static_cast<std::size_t>(ranks));
    for (const auto& error : ended.errors)
      EXPECT_TRUE(says(error, "expected finite gradients, got 'fc1.weight' that is not at step 4")) << error;
    for (const auto steps : ended.steps) EXPECT_EQ(steps, kPoisonedStep - 1);
  }
}

TEST_P(SharedVerdict, RollsBackAndEndsAsIfTheStepHadBeenSkipped) {
  const testing::TestFolder runs("verdict-runs");
  const auto ended = [&](NonFinite verdict, const std::string& folder) {
    RankRun run = recipe(3, verdict);
    run.strategy = GetParam().make;
    run.options.folder = runs.path() / folder;
    run.callbacks = [](Trainer& trainer, int) { trainer.add(checkpoints({.every_steps = 3})); };
    return run.run();
  };
  const auto skipped = ended(NonFinite::skip, "skip"), back = ended(NonFinite::rollback, "rollback");
  for (const auto& rank : back) {
    EXPECT_EQ(rank.hash, skipped[0].hash);
    EXPECT_EQ(rank.result.summary.rollbacks, 1);
    EXPECT_EQ(rank.result.summary.skipped, 1);
    EXPECT_EQ(rank.losses.size(), 8U) << "three steps before, and five from the checkpoint on";
  }
}

TEST_P(SharedVerdict, SkipsTheStepOnAllRanksAndGoesOn) {
  RankRun run = recipe(3, NonFinite::skip);
  run.strategy = GetParam().make;
  const Ended ended = end_of(run);
  ASSERT_EQ(ended.outcomes.size(), 3U) << ended.error;
  EXPECT_TRUE(ended.finite_weights);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ended.skipped[rank], std::set<std::int64_t>{kPoisonedStep});
    EXPECT_EQ(ended.outcomes[rank].hash, ended.outcomes[0].hash);
    EXPECT_EQ(ended.outcomes[rank].result.summary.skipped, 1);
    EXPECT_EQ(ended.outcomes[rank].result.summary.steps, 8);
  }
}

// By default shared updates are not checked: all ranks end by the same loss.
TEST_P(SharedVerdict, ByDefaultEndsAllRanksByTheNextLoss) {
  RankRun run = recipe(3, NonFinite::automatic);
  run.strategy = GetParam().make;
  const Ended ended = end_of(run);
  EXPECT_EQ(ended.errors.size(), 3U);
  for (const auto& error : ended.errors)
    EXPECT_TRUE(says(error, "expected a finite loss") && says(error, "at step 5")) << error;
  for (const auto steps : ended.steps) EXPECT_EQ(steps, kPoisonedStep);
}

// Checking changes no bit.
TEST_P(SharedVerdict, ChangesNothingWhereAllIsFinite) {
  std::set<std::string> hashes;
  for (const NonFinite verdict : {NonFinite::automatic, NonFinite::stop, NonFinite::skip, NonFinite::ignore}) {
    RankRun run = recipe(2, verdict, -1);
    run.strategy = GetParam().make;
    const Ended ended = end_of(run);
    ASSERT_EQ(ended.outcomes.size(), 2U) << ended.error;
    hashes.insert(ended.outcomes[0].hash);
    EXPECT_TRUE(ended.skipped[0].empty());
  }
  EXPECT_EQ(hashes.size(), 1U);
}

// Control: without checking, the update is made, and a later loss shows the corrupted weights.
TEST_P(SharedVerdict, ControlWithoutCheckingTheWeightsAreCorruptedAndTheNextStepFails) {
  RankRun run = recipe(2, NonFinite::ignore);
  run.strategy = GetParam().make;
  const Ended ended = end_of(run);
  EXPECT_TRUE(says(ended.error, "expected a finite loss")) << ended.error;
  EXPECT_TRUE(says(ended.error, "at step 5")) << ended.error;
  EXPECT_FALSE(ended.finite_weights);
}

INSTANTIATE_TEST_SUITE_P(Strategies, SharedVerdict, ::testing::ValuesIn(kShared),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(VerdictOverGloo, EqualsTheVerdictOverThreads) {
  if (!has_gloo()) GTEST_SKIP() << "no gloo here";
  for (const NonFinite verdict : {NonFinite::stop, NonFinite::skip}) {
    RankRun run = recipe(3, verdict);
    run.world = dist::make_gloo_comms;
    const Ended ended = end_of(run);
    if (verdict == NonFinite::stop) {
      for (const auto& error : ended.errors) EXPECT_TRUE(says(error, "expected finite gradients, got 'fc1.weight'"));
      for (const auto steps : ended.steps) EXPECT_EQ(steps, kPoisonedStep - 1);
    } else {
      for (const auto& skipped : ended.skipped) EXPECT_EQ(skipped, std::set<std::int64_t>{kPoisonedStep});
    }
  }
}

class VerdictOfOneRank : public ::testing::TestWithParam<Way> {};

TEST_P(VerdictOfOneRank, EndsAllRanksWithoutSpoilingWeights) {
  RankRun run = recipe(2, NonFinite::automatic);
  run.strategy = GetParam().make;
  run.options.hash_every = 0;
  const Ended ended = end_of(run);
  EXPECT_TRUE(says(ended.error, "expected finite gradients, got others on rank")) << ended.error;
  EXPECT_TRUE(says(ended.error, "at step 4")) << ended.error;
  EXPECT_TRUE(ended.finite_weights);
}

TEST_P(VerdictOfOneRank, SkipsAndTrainsOneModel) {
  RankRun run = recipe(2, NonFinite::skip);
  run.strategy = GetParam().make;
  run.options.hash_every = 0;
  const Ended ended = end_of(run);
  ASSERT_EQ(ended.outcomes.size(), 2U) << ended.error;
  EXPECT_TRUE(ended.finite_weights);
  EXPECT_EQ(ended.skipped[1], std::set<std::int64_t>{kPoisonedStep});
  EXPECT_EQ(ended.outcomes[0].hash, ended.outcomes[1].hash);
}

TEST_P(VerdictOfOneRank, ControlWithoutCheckingWeightsAreCorrupted) {
  RankRun run = recipe(2, NonFinite::ignore);
  run.strategy = GetParam().make;
  run.options.hash_every = 0;
  const Ended ended = end_of(run);
  EXPECT_TRUE(says(ended.error, "expected a finite loss")) << ended.error;
  EXPECT_FALSE(ended.finite_weights);
}

INSTANTIATE_TEST_SUITE_P(Strategies, VerdictOfOneRank, ::testing::ValuesIn(kApart),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(VerdictAlone, OfOneRankAndOfAccumulatedBatchesEqualsThatOfManyRanks) {
  for (const std::int64_t accumulate : {1, 2}) {
    RankRun run = recipe(1, NonFinite::skip);
    run.options.accumulate = accumulate;
    const Ended ended = end_of(run);
    ASSERT_EQ(ended.outcomes.size(), 1U) << ended.error;
    EXPECT_EQ(ended.skipped[0], std::set<std::int64_t>{kPoisonedStep / accumulate});
    EXPECT_TRUE(ended.finite_weights);
  }
}

TEST(VerdictAlone, ALossThatIsNotFiniteIsSkippedToo) {
  for (const std::int64_t accumulate : {1, 2}) {
    RankRun run = recipe(2, NonFinite::skip);
    run.options.accumulate = accumulate;
    run.objective = own_objective([](nn::Module& net, std::span<const Tensor> fields) {
      const Tensor logits = net(fields[0]);
      return Objective::Outputs{.loss = add(cross_entropy(logits, fields[1]), mean(log(fields[2]))),
                                .prediction = logits};  // -∞, and no gradient shows it
    });
    const Ended ended = end_of(run);
    ASSERT_EQ(ended.outcomes.size(), 2U) << ended.error;
    for (const auto& skipped : ended.skipped) EXPECT_EQ(skipped, std::set<std::int64_t>{kPoisonedStep / accumulate});
  }
}

TEST(VerdictAlone, StepsThatAreAllSkippedEndTheRun) {
  RankRun run = recipe(2, NonFinite::skip);
  run.options.epochs = 10;
  run.objective = own_objective([](nn::Module& net, std::span<const Tensor> fields) {
    const Tensor weight = net.parameters()[0];
    const Tensor term = mean(sqrt(mul(mul(fields[2], 0), sum(mul(weight, weight)))));
    return Objective::Outputs{.loss = add(cross_entropy(net(fields[0]), fields[1]), term)};
  });
  const Ended ended = end_of(run);
  EXPECT_TRUE(says(ended.error, "50 in a row")) << ended.error;
}

}  // namespace
}  // namespace starling::train
