// Guarantees of each strategy, checked by each rank; all ranks of a world run them at once, as threads or processes.
// Every law has a control: the same check with the technique switched off must fail. strategy_laws_test.cpp runs them
// over in-process backends, processes/rank.cpp over Gloo and MPI.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>

#include "dist/codec_laws.h"
#include "dist/strategy_testing.h"
#include "starling/dist/health/replica_hash.h"
#include "starling/dist/health/verdict.h"
#include "starling/dist/strategy/allreduce.h"
#include "starling/dist/strategy/backup_workers.h"
#include "starling/dist/strategy/easgd.h"
#include "starling/dist/strategy/grouped.h"
#include "starling/dist/strategy/hogwild.h"
#include "starling/dist/strategy/local_sgd.h"

namespace starling::laws {

using testing::borrowed;
using testing::counter;
using testing::largest_difference;
using testing::random_batch;
using testing::SmallTrainer;

constexpr int kSteps = 12;
constexpr std::int64_t kRows = 7;  // not divisible by 2, 3 or 4 ranks
constexpr double kExact = 1e-12, kApart = 1e-6;

// Gathers the texts of all ranks.
inline std::vector<std::string> gathered(Comm& comm, const std::string& own) {
  using Text = std::array<char, 128>;
  Text text{};
  std::memcpy(text.data(), own.data(), std::min(own.size(), text.size() - 1));
  std::vector<Text> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(text.data(), all.data(), sizeof(Text), DType::u8).wait();
  std::vector<std::string> texts;
  for (const Text& one : all) texts.emplace_back(one.data());
  return texts;
}
inline std::size_t different(Comm& comm, const std::string& own) {
  const auto all = gathered(comm, own);
  return std::set<std::string>(all.begin(), all.end()).size();
}
inline double summed(Comm& comm, double own) {
  comm.all_reduce(&own, &own, 1, DType::f64, ReduceOp::sum).wait();
  return own;
}
inline double largest(Comm& comm, double own) {
  comm.all_reduce(&own, &own, 1, DType::f64, ReduceOp::max).wait();
  return own;
}

inline std::shared_ptr<dist::RankStrategy> averaging(Comm& comm, LocalSgdOptions options) {
  return std::make_shared<LocalSgd>(borrowed(comm), options);
}

// Distance of this rank's weights from those of one process after the same batches.
inline double apart_from_one(const std::shared_ptr<dist::RankStrategy>& strategy, std::int64_t rows = kRows,
                             const optim::SgdOptions& sgd = {.lr = 0.2}) {
  SmallTrainer trainer(strategy, sgd, 3 + strategy->rank());
  for (int s = 0; s < kSteps; ++s) trainer.step(random_batch(rows, 100 + s));
  const SmallTrainer one = testing::trained_alone(kSteps, rows, sgd);
  return std::max(largest_difference(trainer.w, one.w), largest_difference(trainer.b, one.b));
}

inline void allreduce_is_one_process(Comm& comm) {
  const optim::SgdOptions sgd{.lr = 0.2, .momentum = 0.9};
  EXPECT_LE(apart_from_one(allreduce(borrowed(comm)), kRows, sgd), kExact);
  EXPECT_LE(apart_from_one(allreduce(borrowed(comm)), 1, sgd), kExact) << "with ranks that have no rows";
  EXPECT_GT(apart_from_one(averaging(comm, {.every = 1000}), kRows, sgd), kApart) << "control: nothing is exchanged";
}

inline void buckets_and_overlap_change_nothing(Comm& comm) {
  for (const AllReduceOptions& options :
       {AllReduceOptions{.overlap = false}, AllReduceOptions{.bucket_mb = 0}, AllReduceOptions{.bucket_mb = 1e-4}})
    EXPECT_LE(apart_from_one(allreduce(borrowed(comm), options)), kExact);
}

inline std::string trained(const std::shared_ptr<dist::RankStrategy>& strategy) {
  SmallTrainer trainer(strategy, {.lr = 0.1, .momentum = 0.9}, 3);
  for (int s = 0; s < kSteps; ++s) trainer.step(random_batch(24, 100 + s));
  return trainer.hash();
}

inline void deterministic_mode_has_one_hash(Comm& comm) {
  const auto alone = make_thread_comms(1);
  const std::string one = trained(allreduce(borrowed(*alone[0]), {.deterministic = true}));
  EXPECT_EQ(trained(allreduce(borrowed(comm), {.deterministic = true})), one);
  EXPECT_NE(trained(allreduce(borrowed(comm), {.deterministic = true, .shard_order = "tree"})), one)
      << "control: added per rank first";
}

// The last rank is slow in every gradient.
inline void backup_workers_take_the_first_m_of_p(Comm& comm) {
  const int last = comm.size() - 1;
  for (const std::int64_t backups : {1, 0}) {
    const auto strategy = std::make_shared<BackupWorkers>(borrowed(comm), BackupWorkersOptions{.backups = backups});
    SmallTrainer trainer(strategy, {.lr = 0.1});
    int computed = 0;
    trainer.slow = [&](std::int64_t) {
      ++computed;
      if (comm.rank() == last) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    };
    for (int s = 0; s < kSteps; ++s) trainer.step(random_batch(8, s));
    comm.barrier().wait();
    EXPECT_EQ(different(comm, trainer.hash()), 1U) << "all apply the same mean";
    if (comm.rank() > 0) continue;
    EXPECT_EQ(counter(*strategy, "closed"), kSteps);
    EXPECT_EQ(counter(*strategy, "contributions"), static_cast<double>(comm.size() - backups) * kSteps);
    for (int s = 0; s < kSteps; ++s) {
      const auto who = strategy->contributors(s);
      EXPECT_EQ(std::set<int>(who.begin(), who.end()).size(), who.size()) << "distinct";
    }
  }
}

inline void backup_workers_without_backups_are_synchronous(Comm& comm) {
  EXPECT_LE(apart_from_one(std::make_shared<BackupWorkers>(borrowed(comm), BackupWorkersOptions{.backups = 0})),
            kExact);
  const double with = apart_from_one(std::make_shared<BackupWorkers>(borrowed(comm), BackupWorkersOptions{}));
  EXPECT_GT(with, kApart) << "control: samples are left out";
}

inline void local_sgd_with_one_step_is_synchronous(Comm& comm) {
  EXPECT_LE(apart_from_one(averaging(comm, {.every = 1})), kExact);
  EXPECT_GT(apart_from_one(averaging(comm, {.every = 4})), kApart) << "control: four steps";
}

inline void local_sgd_replicas_are_equal_right_after_a_sync_only(Comm& comm) {
  SmallTrainer trainer(averaging(comm, {.every = 4}), {.lr = 0.1, .momentum = 0.9});
  for (int s = 0; s < 8; ++s) {
    trainer.step(random_batch(2 * comm.size(), s));
    EXPECT_EQ(different(comm, trainer.hash()), s % 4 == 3 ? 1U : static_cast<std::size_t>(comm.size())) << s;
  }
}

inline void local_sgd_bytes_fall_as_one_by_the_steps(Comm& comm) {
  const auto bytes = [&](std::int64_t every) {
    const std::uint64_t before = comm.journal().counters(CommOp::all_reduce).bytes_received;
    SmallTrainer trainer(averaging(comm, {.every = every}), {.lr = 0.1});
    for (int s = 0; s < 8; ++s) trainer.step(random_batch(8, s));
    EXPECT_EQ(counter(*trainer.strategy, "syncs"), static_cast<double>(8 / every));
    return comm.journal().counters(CommOp::all_reduce).bytes_received - before;
  };
  const std::uint64_t every_step = bytes(1);
  EXPECT_GT(every_step, 0U);
  EXPECT_EQ(bytes(2) * 2, every_step);
  EXPECT_EQ(bytes(8) * 8, every_step);
}

inline double total(std::span<const Tensor> tensors) {
  double sum = 0;
  for (const auto& tensor : tensors) {
    for (const double value : tensor.to_vector()) sum += value;
  }
  return sum;
}

// Sum of all weights and the centre before and after synchronisations without learning, and the spread of the ranks.
inline void easgd_moves_both_sides_alike(Comm& comm) {
  for (const bool asynchronous : {false, true}) {
    for (const std::int64_t every : {2, 100}) {
      const auto strategy = std::make_shared<Easgd>(
          borrowed(comm), EasgdOptions{.every = every, .alpha = 0.2, .asynchronous = asynchronous});
      SmallTrainer trainer(strategy, {.lr = 0});
      for (std::int64_t i = 0; i < 10; ++i) trainer.w.data<double>()[i] += 1.5 * (comm.rank() + 1);
      const auto sum = [&] {
        comm.barrier().wait();
        const Tensor weights[] = {trainer.w, trainer.b};
        return summed(comm, total(weights) + (comm.rank() == 0 ? total(strategy->centre()) : 0));
      };
      const auto spread = [&] {
        const double own = trainer.w.data<double>()[0];
        return largest(comm, own) + largest(comm, -own);
      };
      const double before = sum(), wide = spread();
      for (int s = 0; s < 10; ++s) trainer.step(random_batch(6, s));
      EXPECT_NEAR(sum(), before, 1e-10);
      if (every == 2) {
        EXPECT_LT(spread(), wide);
      } else {
        EXPECT_EQ(spread(), wide) << "control: they never meet";
      }
      trainer.w.data<double>()[0] -= comm.rank() == 1 ? 1 : 0;
      EXPECT_GT(std::abs(sum() - before), 0.5) << "control: one side moves alone";
    }
  }
}

inline void hogwild_is_one_memory_and_sends_nothing(Comm& comm) {
  const auto strategy = std::make_shared<Hogwild>(borrowed(comm), HogwildOptions{});
  SmallTrainer trainer(strategy, {.lr = 0.05}, 3 + comm.rank());
  for (int s = 0; s < kSteps; ++s) trainer.step(random_batch(8, s));
  EXPECT_EQ(counter(*strategy, "bytes_sent"), 0);
  comm.barrier().wait();
  if (comm.rank() == 0) trainer.w.data<double>()[0] = 4711;
  comm.barrier().wait();
  EXPECT_EQ(trainer.w.data<double>()[0], 4711);
  comm.barrier().wait();
  const auto other = allreduce(borrowed(comm));
  SmallTrainer sending(other, {.lr = 0.05});
  sending.step(random_batch(8, 1));
  comm.barrier().wait();  // the others have read it
  EXPECT_GT(counter(*other, "reduced_bytes_sent"), 0) << "control: what the others do";
  if (comm.rank() == 0) sending.w.data<double>()[0] = 4711;
  comm.barrier().wait();
  if (comm.rank() > 0) {
    EXPECT_NE(sending.w.data<double>()[0], 4711) << "control: each has its own";
  }
}

// Two groups of half of the ranks each.
inline void a_group_is_of_one_mind_and_groups_differ_until_they_meet(Comm& comm) {
  if (comm.size() % 2 != 0) return;
  const dist::Topology topology{.worker_groups = 2, .workers_per_group = comm.size() / 2};
  const auto between = [](std::int64_t every) -> dist::StrategyMaker {
    return [every](auto line) { return std::make_shared<LocalSgd>(std::move(line), LocalSgdOptions{.every = every}); };
  };
  SmallTrainer trainer(std::make_shared<dist::Grouped>(borrowed(comm), topology, AllReduceOptions{}, between(4)),
                       {.lr = 0.1, .momentum = 0.9});
  for (int s = 0; s < 4; ++s) {
    trainer.step(random_batch(11, s));
    const auto hashes = gathered(comm, trainer.hash());
    const auto half = hashes.begin() + comm.size() / 2;
    EXPECT_EQ(std::set<std::string>(hashes.begin(), half).size(), 1U);
    EXPECT_EQ(std::set<std::string>(half, hashes.end()).size(), 1U);
    EXPECT_EQ(*hashes.begin() == *half, s == 3) << "after step " << s;
  }
  EXPECT_LE(apart_from_one(std::make_shared<dist::Grouped>(borrowed(comm), topology, AllReduceOptions{}, between(1))),
            kExact)
      << "meeting at every step";
}

inline void a_replica_that_drifts_is_named(Comm& comm) {
  SmallTrainer trainer(allreduce(borrowed(comm)), {.lr = 0.1});
  trainer.step(random_batch(8, 1));
  EXPECT_NO_THROW(dist::check_replicas(comm, trainer.weights(), 1, "weights"));
  if (comm.rank() == 1) trainer.b.data<double>()[1] += 1e-9;
  std::string error;
  try {
    dist::check_replicas(comm, trainer.weights(), 2, "weights");
  } catch (const Error& e) {
    error = e.what();
  }
  EXPECT_TRUE(dist::contains(error, comm.size() == 2 ? "'b'" : "rank 1"));
}

// One bad element on one rank: all ranks have it after the reduction, and a vote names the rank.
inline void a_gradient_that_is_not_finite_is_everybodys(Comm& comm) {
  std::vector<float> gradient(1000, 1.0F);
  if (comm.rank() == comm.size() - 1) gradient[777] = std::numeric_limits<float>::quiet_NaN();
  const auto named = [&] {
    return dist::first_non_finite(std::vector<NamedTensor>{{"fc.weight", from_host<float>(gradient, {1000})}});
  };
  EXPECT_EQ(named().empty(), comm.rank() != comm.size() - 1) << "control: before it only one rank knows";
  EXPECT_EQ(dist::vote_non_finite(comm, named()).ranks, std::vector<int>{comm.size() - 1});
  comm.all_reduce(gradient.data(), gradient.data(), 1000, DType::f32, ReduceOp::mean).wait();
  EXPECT_EQ(named(), "fc.weight");
  EXPECT_EQ(std::count_if(gradient.begin(), gradient.end(), [](float v) { return std::isfinite(v); }), 999);
}

// One dense layer of f32, trained for three steps by this rank's rows.
struct DenseLayer {
  Tensor w;
  std::uint64_t gathered = 0, reduced = 0;  // bytes received

  DenseLayer(Comm& comm, const std::string& codec, std::int64_t rows_of_a_rank, std::int64_t in, std::int64_t out) {
    manual_seed(3);
    w = normal({in, out});
    w.set_name("w").set_requires_grad();
    optim::Sgd optimizer({w}, {.lr = 0.1});
    const auto strategy = allreduce(borrowed(comm), {.codec = dist::CodecChoice::parse(codec)});
    strategy->begin({.weights = {{"w", w}}, .rule = &optimizer});
    CompiledFunction step(
        [&](std::span<const Tensor> fields) -> TensorList {
          Tensor loss = mse(matmul(fields[0], w), fields[1]);
          loss.backward();
          optimizer.step();
          return {loss.detach()};
        },
        CompileOptions{.threads = 1, .strategy = strategy});
    const auto bytes = [&](CommOp op) { return comm.journal().counters(op).bytes_received; };
    const std::uint64_t gathers = bytes(CommOp::all_gather), reductions = bytes(CommOp::all_reduce);
    const std::int64_t rows = rows_of_a_rank * comm.size();
    for (int s = 0; s < 3; ++s) {
      manual_seed(100 + s);
      const Tensor fields[] = {normal({rows, in}), normal({rows, out})};
      const Tensor own[] = {testing::rows_of_tensor(fields[0], strategy->rows(rows)),
                            testing::rows_of_tensor(fields[1], strategy->rows(rows))};
      step.call(own, GlobalRows{rows});
    }
    gathered = bytes(CommOp::all_gather) - gathers;
    reduced = bytes(CommOp::all_reduce) - reductions;
  }
  std::string hash() const { return train::weights_hash(std::vector<NamedTensor>{{"w", w}}); }
};

// (P - 1) · b · (M + N) words for each rank, and the weights of dense gradients.
inline void factors_rebuild_the_dense_gradient(Comm& comm) {
  constexpr std::int64_t kOwn = 5, kIn = 40, kOut = 24;
  const auto words = static_cast<std::uint64_t>((comm.size() - 1) * kOwn * (kIn + kOut));
  const DenseLayer dense(comm, "none", kOwn, kIn, kOut), factors(comm, "factors", kOwn, kIn, kOut);
  EXPECT_LT(largest_difference(dense.w, factors.w), 1e-5);
  EXPECT_EQ(different(comm, factors.hash()), 1U);
  EXPECT_EQ(factors.gathered, 3 * 4 * words);
  EXPECT_EQ(dense.gathered, 0U) << "control: dense gradients are reduced";
  EXPECT_GE(dense.reduced, factors.reduced + 3 * 4 * kIn * kOut) << "factors reduce the loss alone";
}

struct Law {
  const char* name;
  void (*holds)(Comm&);
};
inline std::ostream& operator<<(std::ostream& out, const Law& law) { return out << law.name; }

inline constexpr Law kLaws[] = {
    {"AllreduceIsOneProcess", allreduce_is_one_process},
    {"BucketsAndOverlapChangeNothing", buckets_and_overlap_change_nothing},
    {"DeterministicModeHasOneHash", deterministic_mode_has_one_hash},
    {"BackupWorkersTakeTheFirstMOfP", backup_workers_take_the_first_m_of_p},
    {"BackupWorkersWithoutBackupsAreSynchronous", backup_workers_without_backups_are_synchronous},
    {"LocalSgdWithOneStepIsSynchronous", local_sgd_with_one_step_is_synchronous},
    {"LocalSgdReplicasAreEqualRightAfterASyncOnly", local_sgd_replicas_are_equal_right_after_a_sync_only},
    {"LocalSgdBytesFallAsOneByTheSteps", local_sgd_bytes_fall_as_one_by_the_steps},
    {"EasgdMovesBothSidesAlike", easgd_moves_both_sides_alike},
    {"HogwildIsOneMemoryAndSendsNothing", hogwild_is_one_memory_and_sends_nothing},
    {"AGroupIsOfOneMindAndGroupsDifferUntilTheyMeet", a_group_is_of_one_mind_and_groups_differ_until_they_meet},
    {"AReplicaThatDriftsIsNamed", a_replica_that_drifts_is_named},
    {"AGradientThatIsNotFiniteIsEverybodys", a_gradient_that_is_not_finite_is_everybodys},
    {"CodedSumsHaveTheSameBitsOnAllRanks", coded_sums_have_the_same_bits_on_all_ranks},
    {"SixteenBitCodecsSendHalfOfTheBytes", sixteen_bit_codecs_send_half_of_the_bytes},
    {"OneBitSendsABitAValueAndTwoFloatsALine", one_bit_sends_a_bit_a_value_and_two_floats_a_line},
    {"OneBitLosesNothingInBothStages", one_bit_loses_nothing_in_both_stages},
    {"TopKKeepsWhatItDoesNotSend", top_k_keeps_what_it_does_not_send},
    {"TopKConservesTheVelocities", top_k_conserves_the_velocities},
    {"ThresholdSendsTheThresholdAndKeepsTheRest", threshold_sends_the_threshold_and_keeps_the_rest},
    {"PowerSgdOfFullRankIsDense", power_sgd_of_full_rank_is_dense},
    {"FactorsRebuildTheDenseGradient", factors_rebuild_the_dense_gradient},
    {"CodecsHideNoValueThatIsNotFinite", codecs_hide_no_value_that_is_not_finite},
};

// Runs all laws in step with the other ranks. True if all held here; failures are printed.
inline bool run_laws(Comm& comm) {
  for (const Law& law : kLaws) {
    SCOPED_TRACE(std::string(law.name) + " on rank " + std::to_string(comm.rank()) + " of " +
                 std::to_string(comm.size()));
    law.holds(comm);
    comm.barrier({.name = law.name}).wait();
  }
  return !::testing::Test::HasFailure();
}

}  // namespace starling::laws
