// Conformance checks of Comm backends, run by each rank, against a serial oracle of plain loops. All ranks of a group
// run each check at once, as threads or processes: comm_conformance_test.cpp runs them over in-process backends;
// programs with one Comm per process call run_conformance.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "dist/comm_oracle.h"
#include "starling/base/error.h"
#include "starling/dist/comm/ordered_sum.h"

namespace starling::conformance {

inline void all_reduce(Comm& comm) {
  Agreement agreement;
  for_dtypes([&]<class T>(DType dtype) {
    for (std::int64_t count : counts_for(comm.size())) {
      for (ReduceOp reduce : kReductions) {
        if (!allowed(dtype, reduce)) continue;
        auto data = input<T>(comm.rank(), count);
        Buffer<T> result(data.size());
        comm.all_reduce(data.data(), result.data(), count, dtype, reduce).wait();
        EXPECT_TRUE(is_reduced<T>(comm, result.data(), count, reduce)) << name(dtype) << " " << name(reduce);
        EXPECT_TRUE(same_bits(data, input<T>(comm.rank(), count))) << "the input has changed";
        comm.all_reduce(data.data(), data.data(), count, dtype, reduce).wait();
        EXPECT_TRUE(same_bits(data, result)) << "in place, " << name(dtype) << " " << name(reduce) << " x " << count;
        agreement.add(result);
      }
    }
  });
  agreement.expect(comm);
}

inline void reduce_scatter(Comm& comm) {
  for_dtypes([&]<class T>(DType dtype) {
    const ReduceOp reduce = dtype == DType::boolean ? ReduceOp::max : ReduceOp::sum;
    for (std::int64_t count : counts_for(comm.size())) {
      auto data = input<T>(comm.rank(), count * comm.size());
      Buffer<T> result(static_cast<std::size_t>(count));
      comm.reduce_scatter(data.data(), result.data(), count, dtype, reduce).wait();
      EXPECT_TRUE(is_reduced<T>(comm, result.data(), count, reduce, comm.rank() * count)) << name(dtype);
      EXPECT_TRUE(same_bits(data, input<T>(comm.rank(), count * comm.size()))) << "the input has changed";
      auto* piece = data.data() + comm.rank() * count;
      comm.reduce_scatter(data.data(), piece, count, dtype, reduce).wait();
      EXPECT_TRUE(same_bits({piece, piece + count}, result)) << "in place, " << name(dtype) << " x " << count;
    }
  });
}

inline std::vector<std::int64_t> uneven(int world) {
  std::vector<std::int64_t> counts;
  for (int r = 0; r < world; ++r) counts.push_back(r % 3 == 1 ? 0 : 5 + 300 * r);
  return counts;
}

// Pieces of all ranks, concatenated.
template <class T>
Buffer<T> joined(const std::vector<std::int64_t>& counts) {
  Buffer<T> all;
  for (int r = 0; r < static_cast<int>(counts.size()); ++r) {
    const auto piece = input<T>(r, counts[static_cast<std::size_t>(r)]);
    all.insert(all.end(), piece.begin(), piece.end());
  }
  return all;
}

inline void uneven_pieces(Comm& comm) {
  const auto counts = uneven(comm.size());
  const auto offset = std::accumulate(counts.begin(), counts.begin() + comm.rank(), std::int64_t{0});
  const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const auto own = counts[static_cast<std::size_t>(comm.rank())];
  const auto data = input<double>(comm.rank(), total);
  std::vector<double> piece(static_cast<std::size_t>(own)), gathered(static_cast<std::size_t>(total));
  comm.reduce_scatter(data.data(), piece.data(), counts, DType::f64, ReduceOp::mean).wait();
  EXPECT_TRUE(is_reduced<double>(comm, piece.data(), own, ReduceOp::mean, offset));
  comm.all_gather(piece.data(), gathered.data(), counts, DType::f64).wait();
  EXPECT_TRUE(is_reduced<double>(comm, gathered.data(), total, ReduceOp::mean));
  for (int root = 0; root < comm.size(); ++root) {
    const bool here = comm.rank() == root;
    const auto mine = input<double>(comm.rank(), own), all = joined<double>(counts);
    std::vector<double> at_root(here ? all.size() : 0), back(mine.size());
    comm.gather(mine.data(), here ? at_root.data() : nullptr, counts, DType::f64, root).wait();
    EXPECT_TRUE(!here || same_bits(at_root, all)) << "gather to " << root;
    comm.scatter(here ? at_root.data() : nullptr, back.data(), counts, DType::f64, root).wait();
    EXPECT_TRUE(same_bits(back, mine)) << "scatter from " << root;
  }
}

inline void all_gather(Comm& comm) {
  for_dtypes([&]<class T>(DType dtype) {
    for (std::int64_t count : counts_for(comm.size())) {
      const auto expected = joined<T>(std::vector<std::int64_t>(static_cast<std::size_t>(comm.size()), count));
      const auto own = input<T>(comm.rank(), count);
      Buffer<T> result(expected.size());
      comm.all_gather(own.data(), result.data(), count, dtype).wait();
      EXPECT_TRUE(same_bits(result, expected)) << name(dtype) << " x " << count;
      std::fill(result.begin(), result.end(), Stored<T>{});
      std::copy(own.begin(), own.end(), result.begin() + comm.rank() * count);
      comm.all_gather(result.data() + comm.rank() * count, result.data(), count, dtype).wait();
      EXPECT_TRUE(same_bits(result, expected)) << "in place, " << name(dtype) << " x " << count;
    }
  });
}

inline void all_to_all(Comm& comm) {
  for (std::int64_t count : counts_for(comm.size())) {
    const auto data = input<std::int32_t>(comm.rank(), count * comm.size());
    std::vector<std::int32_t> result(data.size()), expected;
    for (int r = 0; r < comm.size(); ++r) {
      for (std::int64_t i = 0; i < count; ++i) expected.push_back(value_at<std::int32_t>(r, comm.rank() * count + i));
    }
    comm.all_to_all(data.data(), result.data(), count, DType::i32).wait();
    EXPECT_EQ(result, expected) << count;
  }
}

inline void broadcast(Comm& comm) {
  for_dtypes([&]<class T>(DType dtype) {
    for (int root = 0; root < comm.size(); ++root) {
      for (std::int64_t count : counts_for(comm.size())) {
        auto data = input<T>(comm.rank(), count);
        comm.broadcast(data.data(), count, dtype, root).wait();
        EXPECT_TRUE(same_bits(data, input<T>(root, count))) << name(dtype) << " x " << count << " from " << root;
      }
    }
  });
}

inline void gather(Comm& comm) {
  for_dtypes([&]<class T>(DType dtype) {
    for (std::int64_t count : counts_for(comm.size())) {
      const int root = static_cast<int>(count) % comm.size();
      const bool here = comm.rank() == root;
      const auto expected = joined<T>(std::vector<std::int64_t>(static_cast<std::size_t>(comm.size()), count));
      const auto own = input<T>(comm.rank(), count);
      Buffer<T> result(here ? expected.size() : 0);
      comm.gather(own.data(), result.data(), count, dtype, root).wait();
      EXPECT_TRUE(!here || same_bits(result, expected)) << name(dtype) << " x " << count << " to " << root;
      auto* piece = result.data() + comm.rank() * count;
      if (here) std::fill(result.begin(), result.end(), Stored<T>{});
      if (here) std::copy(own.begin(), own.end(), piece);
      comm.gather(here ? piece : own.data(), result.data(), count, dtype, root).wait();
      EXPECT_TRUE(!here || same_bits(result, expected)) << "in place, " << name(dtype) << " x " << count;
    }
  });
}

inline void scatter(Comm& comm) {
  for_dtypes([&]<class T>(DType dtype) {
    for (std::int64_t count : counts_for(comm.size())) {
      const int root = static_cast<int>(count + 1) % comm.size();
      const bool here = comm.rank() == root;
      const auto expected = input<T>(comm.rank(), count);
      Buffer<T> all;
      if (here) all = joined<T>(std::vector<std::int64_t>(static_cast<std::size_t>(comm.size()), count));
      Buffer<T> result(expected.size());
      comm.scatter(all.data(), result.data(), count, dtype, root).wait();
      EXPECT_TRUE(same_bits(result, expected)) << name(dtype) << " x " << count << " from " << root;
      std::fill(result.begin(), result.end(), Stored<T>{});
      auto* piece = here ? all.data() + root * count : result.data();
      comm.scatter(all.data(), piece, count, dtype, root).wait();
      EXPECT_TRUE(same_bits({piece, piece + count}, expected)) << "in place, " << name(dtype) << " x " << count;
    }
  });
}

inline void all_send_first(Comm& comm) {
  if (comm.size() < 2) return;
  const int next = (comm.rank() + 1) % comm.size(), previous = (comm.rank() + comm.size() - 1) % comm.size();
  for (std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{50'000}}) {
    const auto first = input<float>(comm.rank(), count), second = input<float>(comm.rank() + 100, count);
    std::vector<float> a(first.size()), b(first.size());
    const Work sends[] = {comm.send(first.data(), count, DType::f32, next),
                          comm.send(second.data(), count, DType::f32, next)};
    const Work receives[] = {comm.recv(a.data(), count, DType::f32, previous),
                             comm.recv(b.data(), count, DType::f32, previous)};
    receives[1].wait();
    receives[0].wait();
    for (const Work& send : sends) send.wait();
    EXPECT_TRUE(same_bits(a, input<float>(previous, count)));
    EXPECT_TRUE(same_bits(b, input<float>(previous + 100, count)));
  }
}

// Three times as many as a pair of ranks has slots for; the last one is waited for first.
inline void many_messages(Comm& comm) {
  if (comm.size() < 2) return;
  constexpr std::int64_t kMessages = 24;
  const int next = (comm.rank() + 1) % comm.size(), previous = (comm.rank() + comm.size() - 1) % comm.size();
  std::vector<std::vector<float>> sent, received;
  std::vector<Work> works;
  for (std::int64_t i = 0; i < kMessages; ++i) {
    const auto data = input<float>(comm.rank() + static_cast<int>(i), 1 + 211 * i);
    sent.emplace_back(data.begin(), data.end());
    received.emplace_back(sent.back().size());
  }
  for (const auto& data : sent)
    works.push_back(comm.send(data.data(), static_cast<std::int64_t>(data.size()), DType::f32, next));
  for (auto& data : received)
    works.push_back(comm.recv(data.data(), static_cast<std::int64_t>(data.size()), DType::f32, previous));
  for (auto work = works.rbegin(); work != works.rend(); ++work) work->wait();
  for (std::int64_t i = 0; i < kMessages; ++i)
    EXPECT_TRUE(
        same_bits(received[static_cast<std::size_t>(i)], input<float>(previous + static_cast<int>(i), 1 + 211 * i)));
}

inline void posted_receive(Comm& comm) {
  if (comm.size() < 2) return;
  std::int64_t word = comm.rank() == 0 ? 42 : 0;
  Work receive;
  if (comm.rank() == 1) receive = comm.recv(&word, 1, DType::i64, 0);
  if (comm.rank() == 0) comm.send(&word, 1, DType::i64, 1).wait();
  comm.barrier().wait();
  receive.wait();
  EXPECT_EQ(word, comm.rank() < 2 ? 42 : 0);
}

inline void many_outstanding(Comm& comm) {
  constexpr int kOperations = 400;
  std::vector<std::int64_t> values(kOperations, comm.rank() + 1);
  std::vector<Work> works;
  for (auto& value : values) works.push_back(comm.all_reduce(&value, &value, 1, DType::i64, ReduceOp::sum));
  for (auto work = works.rbegin(); work != works.rend(); ++work) work->wait();
  EXPECT_EQ(values, std::vector<std::int64_t>(kOperations, comm.size() * (comm.size() + 1) / 2));
}

// Several operations in flight at once, waited for in different orders on different ranks.
inline void mixed_outstanding(Comm& comm) {
  const auto world = static_cast<std::size_t>(comm.size());
  auto sum = input<double>(comm.rank(), 3000), root = input<double>(comm.rank(), 500);
  const auto own = input<float>(comm.rank(), 700);
  std::vector<float> all(700 * world);
  const Work works[] = {comm.all_reduce(sum.data(), sum.data(), 3000, DType::f64, ReduceOp::max),
                        comm.all_gather(own.data(), all.data(), 700, DType::f32), comm.barrier(),
                        comm.broadcast(root.data(), 500, DType::f64, comm.size() - 1)};
  for (std::size_t i = 0; i < 4; ++i) works[(i * 3 + static_cast<std::size_t>(comm.rank())) % 4].wait();
  EXPECT_TRUE(is_reduced<double>(comm, sum.data(), 3000, ReduceOp::max));
  EXPECT_TRUE(same_bits(all, joined<float>(std::vector<std::int64_t>(world, 700))));
  EXPECT_TRUE(same_bits(root, input<double>(comm.size() - 1, 500)));
}

inline void polling(Comm& comm) {
  auto data = input<float>(comm.rank(), 40'000);
  const Work work = comm.all_reduce(data.data(), data.data(), 40'000, DType::f32, ReduceOp::sum);
  while (!work.done()) std::this_thread::yield();
  EXPECT_TRUE(is_reduced<float>(comm, data.data(), 40'000, ReduceOp::sum));
}

// The steady clock is shared by all threads and processes of a host.
inline void barrier(Comm& comm) {
  std::vector<std::int64_t> arrived(static_cast<std::size_t>(comm.size()));
  for (int round = 0; round < 10; ++round) {
    if (round % comm.size() == comm.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const std::int64_t before = CommClock::now().time_since_epoch().count();
    comm.barrier().wait();
    const std::int64_t after = CommClock::now().time_since_epoch().count();
    comm.all_gather(&before, arrived.data(), 1, DType::i64).wait();
    EXPECT_GE(after, *std::max_element(arrived.begin(), arrived.end())) << "round " << round;
  }
}

inline void split(Comm& comm) {
  const int color = comm.rank() % 2, key = -comm.rank();
  auto part = comm.split(color, key);
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->size(), (comm.size() + 1 - color) / 2);
  EXPECT_EQ(part->rank(), (comm.size() - 1 - comm.rank()) / 2);
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(part->size())), expected;
  const std::int64_t own = comm.rank();
  part->all_gather(&own, ranks.data(), 1, DType::i64).wait();
  for (int r = comm.size() - 1; r >= 0; --r) {
    if (r % 2 == color) expected.push_back(r);
  }
  EXPECT_EQ(ranks, expected);
  // Operations of a group and its subgroups may be in flight at once.
  std::int64_t here = 1, there = 1;
  const Work inner = part->all_reduce(&here, &here, 1, DType::i64, ReduceOp::sum);
  comm.all_reduce(&there, &there, 1, DType::i64, ReduceOp::sum).wait();
  inner.wait();
  EXPECT_EQ(here, part->size());
  EXPECT_EQ(there, comm.size());
  EXPECT_EQ(comm.split(comm.rank() == 0 ? -1 : 0, 0) == nullptr, comm.rank() == 0);
}

inline void refuses(Comm& comm) {
  std::vector<float> data(100);
  float* p = data.data();
  std::vector<std::int64_t> words(10);
  const int own = comm.rank();
  EXPECT_THROW((void)comm.all_reduce(p, p + 1, 10, DType::f32, ReduceOp::sum), Error);
  EXPECT_THROW((void)comm.all_to_all(p, p, 4, DType::f32), Error);
  EXPECT_THROW((void)comm.all_gather(p + own * 2 + 1, p, 2, DType::f32), Error);
  EXPECT_THROW((void)comm.reduce_scatter(p, p + own * 2 + 1, 2, DType::f32, ReduceOp::sum), Error);
  EXPECT_THROW((void)comm.gather(p + own * 2 + 1, p, 2, DType::f32, own), Error);
  EXPECT_THROW((void)comm.scatter(p, p + own * 2 + 1, 2, DType::f32, own), Error);
  EXPECT_THROW((void)comm.gather(p, nullptr, 2, DType::f32, own), Error);
  EXPECT_THROW((void)comm.scatter(nullptr, p, 2, DType::f32, own), Error);
  EXPECT_THROW((void)comm.gather(p, p + 50, 2, DType::f32, -1), Error);
  EXPECT_THROW((void)comm.all_reduce(words.data(), words.data(), 10, DType::i64, ReduceOp::mean), Error);
  EXPECT_THROW((void)comm.all_reduce(p, p, 10, DType::boolean, ReduceOp::sum), Error);
  EXPECT_THROW((void)comm.broadcast(p, 10, DType::f32, comm.size()), Error);
  EXPECT_THROW((void)comm.send(p, 10, DType::f32, own), Error);
  EXPECT_THROW((void)comm.all_reduce(p, p, -1, DType::f32, ReduceOp::sum), Error);
  EXPECT_THROW((void)comm.all_gather(p, p + 50, std::vector<std::int64_t>(12, 1), DType::f32), Error);
  comm.barrier().wait();  // a refused call does not count: the ranks are still in step
}

// Sums of shards in global order have the same bits on every backend.
inline void ordered(Comm& comm) {
  constexpr std::int64_t kCount = 5000;
  constexpr int kShards = 12;
  const int first = kShards * comm.rank() / comm.size(), last = kShards * (comm.rank() + 1) / comm.size();
  std::vector<float> own, sum(kCount), expected(kCount);
  for (int s = first; s < last; ++s) {
    const auto shard = input<float>(s, kCount);
    own.insert(own.end(), shard.begin(), shard.end());
  }
  dist::ordered_sum(comm, own.data(), last - first, sum.data(), kCount, DType::f32);
  for (std::int64_t i = 0; i < kCount; ++i)
    expected[static_cast<std::size_t>(i)] = reduced_at<float>(ReduceOp::sum, kShards, i).value;
  EXPECT_TRUE(same_bits(sum, expected));
}

// Few dtypes and ops, to be quick; ranks divide the comparison.
inline void a_million(Comm& comm) {
  constexpr std::int64_t kCount = 1'000'000;
  auto data = input<float>(comm.rank(), kCount);
  auto half = input<BFloat16>(comm.rank(), kCount);
  const Work first = comm.all_reduce(data.data(), data.data(), kCount, DType::f32, ReduceOp::mean);
  comm.all_reduce(half.data(), half.data(), kCount, DType::bf16, ReduceOp::sum).wait();
  first.wait();
  Agreement agreement;
  agreement.add(data);
  agreement.add(half);
  agreement.expect(comm);
  EXPECT_TRUE(is_reduced<float>(comm, data.data(), kCount, ReduceOp::mean, 0, comm.rank(), comm.size()));
  EXPECT_TRUE(is_reduced<BFloat16>(comm, half.data(), kCount, ReduceOp::sum, 0, comm.rank(), comm.size()));
  auto from_root = input<float>(comm.rank(), kCount);
  comm.broadcast(from_root.data(), kCount, DType::f32, 0).wait();
  EXPECT_TRUE(same_bits(from_root, input<float>(0, kCount)));
  const std::int64_t piece = kCount / comm.size();
  std::vector<float> all(static_cast<std::size_t>(piece * comm.size()));
  const auto own = input<float>(comm.rank(), piece);
  comm.all_gather(own.data(), all.data(), piece, DType::f32).wait();
  EXPECT_TRUE(same_bits(all, joined<float>(std::vector<std::int64_t>(static_cast<std::size_t>(comm.size()), piece))));
}

struct Check {
  std::string name;
  void (*run)(Comm&);
};

inline void PrintTo(const Check& check, std::ostream* out) { *out << check.name; }

inline std::vector<Check> checks() {
  return {
      {"AllReduceEqualsTheSerialReductionOnEveryRank", all_reduce},
      {"ReduceScatterGivesEachRankItsPiece", reduce_scatter},
      {"UnevenPiecesAreScatteredAndGathered", uneven_pieces},
      {"AllGatherPutsPiecesInRankOrder", all_gather},
      {"AllToAllTransposesPieces", all_to_all},
      {"BroadcastReachesAllRanksFromEveryRoot", broadcast},
      {"GatherPutsPiecesInRankOrderOnTheRoot", gather},
      {"ScatterGivesEachRankItsPieceOfTheRoots", scatter},
      {"RanksThatAllSendBeforeTheyReceiveDoNotBlock", all_send_first},
      {"ManyMessagesToOneRankStartBeforeAnyIsReceived", many_messages},
      {"APostedReceiveDoesNotHoldUpItsSender", posted_receive},
      {"ManyOperationsMayBeOutstandingAndAreWaitedForInAnyOrder", many_outstanding},
      {"DifferentOperationsMayBeUnderWayAtOnce", mixed_outstanding},
      {"ARankThatOnlyPollsSeesTheEnd", polling},
      {"BarrierHoldsEveryoneUntilTheLastArrives", barrier},
      {"SplitMakesGroupsOrderedByKey", split},
      {"RefusesPartialOverlapsAndWhatHasNoMeaning", refuses},
      {"ShardsAreSummedInGlobalOrder", ordered},
      {"ReducesAMillionElements", a_million},
  };
}

// Runs all checks in step with the other ranks. True if all held here; failures are printed.
inline bool run_conformance(Comm& comm) {
  for (const Check& check : checks()) {
    SCOPED_TRACE(check.name + " on rank " + std::to_string(comm.rank()) + " of " + std::to_string(comm.size()));
    check.run(comm);
    comm.barrier({.name = check.name}).wait();
  }
  return !::testing::Test::HasFailure();
}

}  // namespace starling::conformance
