#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "starling/ops/api/creation.h"
#include "starling/train/checkpoint/background_saver.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "testing/file_faults.h"
#include "testing/temporary_folder.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;
using testing::Fault;

Checkpoint at_step(std::int64_t step) {
  const auto value = static_cast<double>(step);
  return {.step = step,
          .tensors = {{"w", from_doubles(std::vector<double>(3000, value), {30, 100})},
                      {"w.velocity", from_doubles(std::vector<double>(3000, -value), {30, 100})},
                      {"count", from_doubles(std::vector<double>{value}, {}, DType::i64)}},
          .extra = {{"sample", step}}};
}

void expect_step(const Checkpoint& checkpoint, std::int64_t step, const std::string& when) {
  const auto expected = at_step(step);
  EXPECT_EQ(checkpoint.step, step) << when;
  EXPECT_EQ(checkpoint.extra, expected.extra) << when;
  ASSERT_EQ(checkpoint.tensors.size(), expected.tensors.size()) << when;
  for (const auto& [name, tensor] : expected.tensors) {
    const auto found = std::find_if(checkpoint.tensors.begin(), checkpoint.tensors.end(),
                                    [&](const NamedTensor& t) { return t.name == name; });
    ASSERT_NE(found, checkpoint.tensors.end()) << name << when;
    EXPECT_EQ(found->tensor.to_vector(), tensor.to_vector()) << name << when;
  }
}

constexpr int kSaved = 0, kFailed = 1, kSavedWithoutFault = 10;

// Exit status of a child that saves `step` with a fault at its n-th call.
int save_in_child(const CheckpointFolder& folder, std::int64_t step, Fault fault, long nth) {
  const Checkpoint checkpoint = at_step(step);
  const pid_t child = ::fork();
  if (child == 0) {
    testing::arm(fault, nth);
    const bool saved = folder.save(checkpoint).ok();
    ::_exit(!testing::fault_happened ? kSavedWithoutFault : saved ? kSaved : kFailed);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "the save crashed";
  return WEXITSTATUS(status);
}

struct Case {
  const char* what;
  std::int64_t step;  // saved over checkpoints of steps 1 and 2
  std::uint64_t shard_bytes;
};

// Fails every call of a save in turn: afterwards the newest completed checkpoint loads.
void fail_everywhere(Fault fault, const Case& test) {
  std::set<int> endings;
  long calls = 0;
  for (long nth = 1;; ++nth) {
    const std::string when = fmt::format(" ({}, fault {} at call {})", test.what, static_cast<int>(fault), nth);
    const testing::TemporaryFolder folder;
    const CheckpointFolder checkpoints(folder.path(), {.keep = 2, .shard_bytes = test.shard_bytes});
    for (std::int64_t step : {1, 2}) checkpoints.save(at_step(step)).value();
    const int ending = save_in_child(checkpoints, test.step, fault, nth);
    if (ending == kSavedWithoutFault) break;
    endings.insert(ending);
    ++calls;
    const auto loaded = checkpoints.load_latest();
    ASSERT_TRUE(loaded) << loaded.error() << when;
    EXPECT_TRUE(loaded->skipped.empty()) << loaded->skipped[0] << when;
    const std::int64_t step = loaded->checkpoint.step;
    EXPECT_TRUE(step == 2 || step == test.step) << step << when;
    EXPECT_TRUE(ending != kSaved || step == test.step) << step << when;
    expect_step(loaded->checkpoint, step, when);
    // The run can continue from there.
    ASSERT_TRUE(checkpoints.save(at_step(5))) << when;
    expect_step(checkpoints.load_latest().value().checkpoint, 5, when);
    for (const auto& entry : fs::directory_iterator(folder.path()))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp")) << entry.path() << when;
  }
  EXPECT_GE(calls, 10) << "expected a save to make this many calls at least";
  const bool kills = fault == Fault::kill || fault == Fault::kill_half;
  EXPECT_TRUE(endings.contains(kills ? testing::kKilled : kFailed));
}

class CheckpointFaults : public ::testing::TestWithParam<Fault> {
 protected:
  CheckpointFaults() { testing::syncs = false; }
  ~CheckpointFaults() override { testing::syncs = true; }
};

TEST_P(CheckpointFaults, AtAnyCallOfASaveLeaveAWholeCheckpoint) {
  fail_everywhere(GetParam(), {"a new step", 3, std::uint64_t{1} << 30});
}

TEST_P(CheckpointFaults, AtAnyCallOfASaveInShardsLeaveAWholeCheckpoint) {
  fail_everywhere(GetParam(), {"in shards", 3, 13000});
}

TEST_P(CheckpointFaults, AtAnyCallOfASaveOverTheSameStepLeaveAWholeCheckpoint) {
  fail_everywhere(GetParam(), {"the same step again", 2, std::uint64_t{1} << 30});
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointFaults,
                         ::testing::Values(Fault::kill, Fault::kill_half, Fault::io_error, Fault::full_disk));

TEST(CheckpointShards, HoldWhatOneFileWould) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path(), {.shard_bytes = 13000});
  const fs::path saved = checkpoints.save(at_step(7)).value();
  EXPECT_TRUE(fs::exists(saved / "tensors-00001-of-00002.safetensors"));
  EXPECT_TRUE(fs::exists(saved / "tensors-00002-of-00002.safetensors"));
  expect_step(checkpoints.load(7).value(), 7, "");
  fs::remove(saved / "tensors-00002-of-00002.safetensors");
  EXPECT_FALSE(checkpoints.load(7));
}

TEST(BackgroundSaver, WritesTheStateOfTheCallWhateverHappensAfterwards) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  BackgroundSaver saver(checkpoints);
  Checkpoint state = at_step(1);
  for (std::int64_t step = 1; step <= 20; ++step) {
    const Checkpoint next = at_step(step);
    for (std::size_t i = 0; i < state.tensors.size(); ++i) copy_into(state.tensors[i].tensor, next.tensors[i].tensor);
    state.step = step;
    state.extra = next.extra;
    saver.save(state);
    for (auto& [name, tensor] : state.tensors) copy_into(tensor, full(tensor.shape(), -1.0, tensor.dtype()));
    const auto outcome = saver.wait();
    ASSERT_TRUE(outcome && outcome->result) << outcome->result.error();
    EXPECT_EQ(outcome->step, step);
    expect_step(checkpoints.load(step).value(), step, "");
  }
}

TEST(BackgroundSaver, TellsEachOutcomeOnceAndWaitsForTheSaveBefore) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  BackgroundSaver saver(checkpoints);
  EXPECT_FALSE(saver.wait());
  EXPECT_FALSE(saver.save(at_step(1)));
  const auto first = saver.save(at_step(2));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->step, 1);
  EXPECT_EQ(saver.wait()->step, 2);
  EXPECT_FALSE(saver.wait());
  EXPECT_FALSE(saver.poll());
  EXPECT_EQ(checkpoints.steps(), (std::vector<std::int64_t>{1, 2}));
}

TEST(BackgroundSaver, ReportsADiskThatIsFullAndSavesAgainWhenItIsNot) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  BackgroundSaver saver(checkpoints);
  testing::arm(Fault::full_disk, 3);
  saver.save(at_step(1));
  const auto outcome = saver.wait();
  testing::disarm();
  ASSERT_TRUE(outcome);
  EXPECT_NE(outcome->result.error().find("No space left on device"), std::string::npos) << outcome->result.error();
  saver.save(at_step(2));
  EXPECT_TRUE(saver.wait()->result);
  expect_step(checkpoints.load_latest().value().checkpoint, 2, "");
}

TEST(BackgroundSaver, FinishesWhatItBeganBeforeItGoes) {
  const testing::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  {
    BackgroundSaver saver(checkpoints);
    saver.save(at_step(9));
  }
  expect_step(checkpoints.load_latest().value().checkpoint, 9, "");
}

}  // namespace
}  // namespace starling::train
