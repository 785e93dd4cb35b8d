// Health checks between ranks: diverged replicas, non-finite values, last operations.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>

#include "dist/comm_worlds.h"
#include "starling/dist/health/flight_recorder.h"
#include "starling/dist/health/replica_hash.h"
#include "starling/dist/health/verdict.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;

std::vector<NamedTensor> weights() {
  std::vector<NamedTensor> tensors;
  for (const char* name : {"fc2.weight", "fc1.weight", "fc1.bias"}) {
    Tensor t = zeros({3, 4});
    for (int i = 0; i < 12; ++i) t.data<float>()[i] = static_cast<float>(i) + static_cast<float>(name[2]);
    tensors.push_back({name, t});
  }
  return tensors;
}

void flip_last_bit(const Tensor& tensor, int element) {
  reinterpret_cast<std::uint32_t*>(tensor.data<float>())[element] ^= 1u;
}

TEST(ReplicaHash, IsTheSameWhereReplicasAreAndDependsOnEveryBit) {
  std::vector<std::string> hashes(4), changed(4);
  run_ranks(checking_backend().make(4), [&](Comm& comm) {
    auto tensors = weights();
    if (comm.rank() == 1) std::swap(tensors[0], tensors[2]);  // the order of tensors does not matter
    const auto rank = static_cast<std::size_t>(comm.rank());
    hashes[rank] = check_replicas(comm, tensors, 0);
    flip_last_bit(tensors[1].tensor, 5);
    changed[rank] = check_replicas(comm, std::vector{tensors[1]}, 0);
  });
  EXPECT_EQ(hashes[0].size(), 32u);
  EXPECT_NE(hashes[0], changed[0]);
  for (const std::string& hash : hashes) EXPECT_EQ(hash, hashes[0]);
}

TEST(ReplicaHash, NamesTheOddRankTheFirstDifferingTensorAndTheStepOnAllRanks) {
  for (int odd = 0; odd < 3; ++odd) {
    const auto errors = errors_of(checking_backend().make(3), [&](Comm& comm) {
      const auto tensors = weights();
      if (comm.rank() == odd) {
        flip_last_bit(tensors[0].tensor, 11);
        flip_last_bit(tensors[1].tensor, 0);
      }
      check_replicas(comm, tensors, 120);
    });
    const std::string name = "rank " + std::to_string(odd);
    for (const std::string& error : errors) {
      EXPECT_TRUE(contains(error, "expected the same weights on all ranks after step 120, got a difference in 2 of 3"));
      EXPECT_TRUE(contains(error, name + " differs from the others; first in 'fc1.weight': "));
      EXPECT_TRUE(contains(error, name + " has f32[3, 4] "));
    }
  }
}

TEST(ReplicaHash, ShowsBothOfTwoRanks) {
  const auto errors = errors_of(threads_backend().make(2), [&](Comm& comm) {
    const auto tensors = weights();
    if (comm.rank() == 1) flip_last_bit(tensors[2].tensor, 3);
    check_replicas(comm, tensors, 7, "averaged weights");
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, "expected the same averaged weights on all ranks after step 7"));
    EXPECT_TRUE(contains(error, "no majority among 2 ranks; first in 'fc1.bias': rank 0 has f32[3, 4] "));
    EXPECT_TRUE(contains(error, "; rank 1 has f32[3, 4] "));
  }
}

TEST(ReplicaHash, FindsOtherShapesDtypesAndMissingTensors) {
  const auto report_with = [](const std::function<void(std::vector<NamedTensor>&)>& change) {
    std::vector<ReplicaReport> reports(3);
    run_ranks(threads_backend().make(3), [&](Comm& comm) {
      auto tensors = weights();
      if (comm.rank() == 2) change(tensors);
      reports[static_cast<std::size_t>(comm.rank())] = compare_replicas(comm, tensors);
    });
    for (const auto& report : reports) EXPECT_EQ(report.sides, reports[0].sides);
    EXPECT_EQ(reports[0].odd, std::vector<int>{2});
    return reports[0];
  };
  const auto reshaped = report_with([](auto& t) { t[0].tensor = view_of(t[0].tensor, {4, 3}, {3, 1}, 0); });
  EXPECT_TRUE(contains(reshaped.sides, "rank 2 has f32[4, 3] "));
  const auto retyped = report_with([](auto& t) { t[0].tensor = zeros({3, 4}, DType::i32); });
  EXPECT_TRUE(contains(retyped.sides, "rank 2 has i32[3, 4] "));
  const auto missing = report_with([](auto& t) { t.pop_back(); });
  EXPECT_EQ(missing.tensor, "fc1.bias");
  EXPECT_EQ(missing.differing, 1);
  EXPECT_TRUE(contains(missing.sides, "rank 2 has no such tensor"));
}

TEST(ReplicaHash, RefusesANameGivenTwice) {
  const auto errors = errors_of(threads_backend().make(1), [&](Comm& comm) {
    auto tensors = weights();
    tensors.push_back(tensors[0]);
    check_replicas(comm, tensors, 0);
  });
  EXPECT_TRUE(contains(errors[0], "[replicas] expected each tensor once, got 'fc2.weight' twice"));
}

TEST(Verdict, FindsInfinitiesAndNaNsInEveryFloatingDtype) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (double bad : {std::nan(""), std::numeric_limits<double>::infinity(), -1e300 * 1e300}) {
      std::vector<double> values(2000, 1.0);
      const NamedTensor good{"good", from_doubles(values, {2000}, dtype)};
      values[1999] = bad;
      const NamedTensor wrong{"wrong", from_doubles(values, {2000}, dtype)};
      EXPECT_EQ(first_non_finite(std::vector{good, good}), "");
      EXPECT_EQ(first_non_finite(std::vector{good, wrong}), "wrong");
    }
  }
  EXPECT_EQ(first_non_finite(std::vector{NamedTensor{"i", zeros({3}, DType::i64)}}), "");
}

TEST(Verdict, OfAVoteIsTheSameOnAllRanksAndNamesRankAndTensor) {
  std::vector<std::string> texts(4), after(4);
  run_ranks(checking_backend().make(4), [&](Comm& comm) {
    const bool bad = comm.rank() == 1 || comm.rank() == 3;
    const auto rank = static_cast<std::size_t>(comm.rank());
    texts[rank] = vote_non_finite(comm, bad ? "grad " + std::to_string(comm.rank()) : "").text();
    const Verdict all_well = vote_non_finite(comm, "");
    EXPECT_TRUE(all_well.finite());
    after[rank] = all_well.text();
  });
  for (const std::string& text : texts) EXPECT_EQ(text, "ranks 1 ('grad 1'), 3 ('grad 3')");
  for (const std::string& text : after) EXPECT_EQ(text, "no rank");
}

// The vote is part of the gradient's reduction: one collective, whatever the gradient holds.
TEST(Verdict, NeedsNoMessageBesideTheGradientReduction) {
  constexpr std::int64_t kCount = 10;
  for (ReduceOp reduce : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max}) {
    for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      const Comms comms = threads_backend().make(3);
      run_ranks(comms, [&](Comm& comm) {
        std::vector<double> values(kCount + 3, 0.5);
        if (comm.rank() == 2) values[4] = std::nan("");
        const Tensor buffer = from_doubles(values, {kCount + flag_count(comm)}, dtype);
        auto* tail = static_cast<std::byte*>(buffer.raw()) + kCount * static_cast<std::int64_t>(size_of(dtype));
        write_flags(comm, comm.rank() == 2, tail, dtype);
        comm.all_reduce(buffer.raw(), buffer.raw(), buffer.numel(), dtype, reduce).wait();
        EXPECT_EQ(read_flags(comm, tail, dtype).ranks, std::vector<int>{2});
      });
      EXPECT_EQ(comms[0]->journal().total().calls, 1u);
    }
  }
}

TEST(Verdict, WithoutTheVoteARankThatSawNothingGoesOn) {
  // Control: a rank's own tensors alone give no verdict.
  std::vector<int> finite(2);
  run_ranks(threads_backend().make(2), [&](Comm& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    const std::vector<NamedTensor> own{{"loss", from_doubles(std::vector{comm.rank() == 0 ? std::nan("") : 1.0}, {1})}};
    const std::string bad = first_non_finite(own);
    finite[rank] = bad.empty() + 2 * vote_non_finite(comm, bad).finite();
  });
  EXPECT_EQ(finite[0], 0);
  EXPECT_EQ(finite[1], 1) << "locally all is well; the verdict is not";
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Runs body(); if it throws, writes this rank's record and rethrows, as jobs do.
void recorded(const Comm& comm, const std::filesystem::path& folder, const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    static_cast<void>(write_flight_record(comm, folder, error.what()));
    throw;
  }
}

TEST(FlightRecords, AreWrittenByEveryRankWhenAGroupBreaks) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("flight_records_" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  const auto errors = errors_of(threads_backend().make(3), [&](Comm& comm) {
    recorded(comm, folder, [&] {
      float x = 1;
      comm.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum, {.name = "warm up"}).wait();
      if (comm.rank() == 2) fail("[data] expected 784 columns, got 3");
      comm.barrier({.name = "the end", .deadline = milliseconds(150)}).wait();
    });
  });
  EXPECT_TRUE(contains(errors[2], "784 columns")) << "the error goes on";
  for (int rank : {0, 1}) {
    const std::string text = text_of(folder / "failures" / ("rank" + std::to_string(rank) + ".txt"));
    EXPECT_TRUE(
        contains(text, "rank " + std::to_string(rank) + " of 3, group 'world', epoch 0, backend threads, host "));
    EXPECT_TRUE(contains(text, "not arrived: rank 2 (last started #1)"));
    EXPECT_TRUE(contains(text, "waiting for:\n  barrier 'the end' #2 since "));
    EXPECT_TRUE(contains(text, "all_reduce(sum) f32 x 1 'warm up' #1 "));
    EXPECT_TRUE(contains(text, "all_reduce: 1 calls, "));
  }
  const std::string culprit = text_of(folder / "failures" / "rank2.txt");
  EXPECT_TRUE(contains(culprit, "why: [rank 2] [data] expected 784 columns, got 3\nwaiting for:\n  nothing\n"));
  std::filesystem::remove_all(folder);
}

TEST(FlightRecords, AreNotWrittenWhenAllIsWellAndAFolderThatCannotBeMadeHidesNothing) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("no_records_" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  run_ranks(threads_backend().make(1), [&](Comm& comm) {
    recorded(comm, folder, [] {});
    EXPECT_FALSE(std::filesystem::exists(folder));
    std::ofstream(folder) << "a file where the folder should be";
    EXPECT_FALSE(write_flight_record(comm, folder, "test").ok());
    EXPECT_THROW(recorded(comm, folder, [] { fail("[x] real error"); }), Error);
  });
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace starling::dist
