// Memory of saves: what they hold beside the state of the run is bounded. Measured in processes of their own, by their
// peak.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "starling/dist/strategy/easgd.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/train/checkpoint/background_saver.h"
#include "starling/train/job/job_run.h"
#include "starling/train/job/prepared_job.h"
#include "testing/temporary_folder.h"
#include "train/ranks_testing.h"
#include "train/tiny_fashion.h"

namespace starling::train {
namespace {

constexpr std::int64_t kMegabyte = 1 << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // sanitizers need memory of their own
#else
constexpr bool kSanitized = false;
#endif

std::int64_t peak_megabytes() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss / 1024;
}

// A state of eight tensors of 16 MB.
Checkpoint large() {
  Checkpoint made{.step = 1, .tensors = {}};
  for (int i = 0; i < 8; ++i)
    made.tensors.push_back({"t" + std::to_string(i), full({16 * kMegabyte / 4}, i + 0.5, DType::f32)});
  return made;
}

// Saves as a run with train.best does, two at a time.
void save_twice(const std::filesystem::path& folder, const Checkpoint& state, std::uint64_t most) {
  BackgroundSaver latest(CheckpointFolder(folder / "latest"), most / 2);
  BackgroundSaver best(CheckpointFolder(folder / "best"), most / 2);
  latest.save(state);
  best.save(state);
  latest.wait()->result.value();
  best.wait()->result.value();
}

// Body of the measured process; not a test of its own.
TEST(SaveMemory, DISABLED_OfThisProcess) {
  const char* folder = std::getenv("STARLING_TEST_FOLDER");
  const char* most = std::getenv("STARLING_TEST_MOST");
  ASSERT_TRUE(folder != nullptr && most != nullptr) << "started by the other tests";
  const bool strided = std::string(most) == "strided";
  const Checkpoint state =
      strided ? Checkpoint{.step = 1, .tensors = {{"t", transpose(full({3000, 4096}, 1.5, DType::f32), {1, 0})}}}
              : large();
  ASSERT_NE(state.tensors[0].tensor.contiguous(), strided);
  const std::int64_t before = peak_megabytes();
  if (strided) {
    CheckpointFolder(folder).save(state).value();
  } else {
    save_twice(folder, state, std::stoull(most) * kMegabyte);
  }
  testing::write_text(std::filesystem::path(folder) / "grown", std::to_string(peak_megabytes() - before));
}

// Megabytes by which the peak of a process grows that saves so.
std::int64_t grown(const std::filesystem::path& folder, const std::string& most,
                   const std::string& body = "DISABLED_OfThisProcess") {
  const std::string command = fmt::format(
      "STARLING_TEST_FOLDER='{}' STARLING_TEST_MOST={} '{}' --gtest_filter=SaveMemory.{} "
      "--gtest_also_run_disabled_tests >'{}/log' 2>&1",
      folder.string(), most, std::filesystem::read_symlink("/proc/self/exe").string(), body, folder.string());
  EXPECT_EQ(std::system(command.c_str()), 0) << testing::read_text(folder / "log");
  const std::string told = testing::read_text(folder / "grown");
  return told.empty() ? -1 : std::stoll(told);
}

TEST(SaveMemory, IsBoundedForTwoSavesAtATime) {
  if (kSanitized) GTEST_SKIP();
  const testing::TemporaryFolder folder;
  const std::int64_t bounded = grown(folder.path(), "64");
  EXPECT_TRUE(bounded >= 0 && bounded <= 64 + 16) << bounded;
}

TEST(SaveMemory, IsHardlyAnyWhereNoneIsAllowedAndCopiesWhereTheyAre) {
  if (kSanitized) GTEST_SKIP();
  const testing::TemporaryFolder folder;
  const std::int64_t none = grown(folder.path(), "0");
  EXPECT_TRUE(none >= 0 && none <= 16) << none;
  EXPECT_GE(grown(folder.path(), "256"), 100) << "the measure shows copies";
}

TEST(SaveMemory, OfATensorWithStridesIsOnePiece) {
  if (kSanitized) GTEST_SKIP();
  const testing::TemporaryFolder folder;
  const std::int64_t piece = grown(folder.path(), "strided");  // 49 MB in all
  EXPECT_TRUE(piece >= 0 && piece <= 16) << piece;
  const auto loaded = CheckpointFolder(folder.path()).load(1).value();
  EXPECT_EQ(loaded.tensors[0].tensor.shape(), (Shape{4096, 3000}));
}

// Body of the measured process: a job with Adam that keeps its best state, of 67 MB, and saves at every step.
TEST(SaveMemory, DISABLED_OfThisJob) {
  const char* folder = std::getenv("STARLING_TEST_FOLDER");
  const char* most = std::getenv("STARLING_TEST_MOST");
  ASSERT_TRUE(folder != nullptr && most != nullptr) << "started by the other tests";
  const std::string home(folder);
  testing::write_tiny_fashion(home, 64, 32);
  const std::string text = "model: {name: mlp, hidden: [2000, 2000]}\ndata: {folder: '" + home +
                           "', batch: 32}\noptimizer: {name: adam, lr: 0.0001}\ntrain: {folder: '" + home +
                           "/run', epochs: 2, export: false, best: accuracy, checkpoint_every: 1}\n"
                           "distribute: {threads: 1}\nmonitor: {tensorboard: false}\n";
  TrainOptions options;
  options.progress.mode = ProgressMode::off;
  const std::vector<std::string> set{std::string("train.save_memory=") + most};
  EXPECT_EQ(run_job(read_job(ConfigNode::parse(text, "job.yaml", set)), options).summary.steps, 4);
  testing::write_text(std::filesystem::path(folder) / "grown", std::to_string(peak_megabytes()));
}

// From train.save_memory in the job to the savers: their copies are what a job's peak grows by.
TEST(SaveMemory, OfAWholeJobWithAdamAndItsBestStateIsWhatTheJobAllows) {
  if (kSanitized) GTEST_SKIP();
  const auto peak = [](const std::string& most) {
    const testing::TemporaryFolder folder;
    return grown(folder.path(), most, "DISABLED_OfThisJob");
  };
  const std::int64_t none = peak("0"), some = peak("24"), all = peak("1000");
  EXPECT_GT(none, 0);
  EXPECT_LE(some - none, 24 + 16) << none;
  EXPECT_GE(all - none, 60) << none << ": control: one state is copied, and the best";
}

// Two ranks that are apart, with a state of 32 MB each: weights and momentum.
testing::RankRun apart(int width) {
  testing::RankRun run{.ranks = 2, .options = {.epochs = 2, .batch = 8}, .data = testing::splits(testing::points(400))};
  run.net = [width] {
    manual_seed(3);
    nn::Sequential net;
    net.add("fc1", nn::Linear({.in = 8, .out = width})).add("relu", nn::Relu());
    net.add("fc2", nn::Linear({.in = width, .out = width})).add("relu2", nn::Relu());
    net.add("fc3", nn::Linear({.in = width, .out = 4}));
    return net;
  };
  run.strategy = [](std::shared_ptr<Comm> comm) {
    return std::make_shared<Easgd>(std::move(comm), EasgdOptions{.every = 100});
  };
  return run;
}

// Before an epoch ends, which brings the ranks together.
void stop_early(testing::RankRun& run) {
  run.options.stop = [asked = std::make_shared<std::atomic<int>>(0)] { return thread_rank() == 0 && (*asked)++ >= 2; };
}

// Body of the measured process.
TEST(SaveMemory, DISABLED_OfRanksThatAreApart) {
  const char* folder = std::getenv("STARLING_TEST_FOLDER");
  const char* most = std::getenv("STARLING_TEST_MOST");
  ASSERT_TRUE(folder != nullptr && most != nullptr) << "started by the other tests";
  testing::RankRun run = apart(2000);
  if (std::string(most) == "saves") {
    run.callbacks = [&](Trainer& trainer, int) {
      trainer.add(checkpoints({.folder = std::filesystem::path(folder) / "c", .save_memory = 0}));
    };
  }
  stop_early(run);
  EXPECT_TRUE(run.run()[0].result.interrupted);
  testing::write_text(std::filesystem::path(folder) / "grown", std::to_string(peak_megabytes()));
}

// The model that they make together is written as it is made, a piece at a time.
TEST(SaveMemory, OfTheModelThatRanksMakeTogetherIsAPiece) {
  if (kSanitized) GTEST_SKIP();
  const auto peak = [](const std::string& what) {
    const testing::TemporaryFolder folder;
    return grown(folder.path(), what, "DISABLED_OfRanksThatAreApart");
  };
  const std::int64_t without = peak("none"), saves = peak("saves");
  EXPECT_GT(without, 0);
  EXPECT_LE(saves - without, 20) << without;
}

TEST(SaveMemory, OfARunThatResumesIsThatOfOneThatBegins) {
  const testing::TestFolder folder("resumes-in-memory");
  const auto peak = [&] {
    testing::RankRun run = apart(1000);
    run.callbacks = [&](Trainer& trainer, int) { trainer.add(checkpoints({.folder = folder.path() / "c"})); };
    stop_early(run);
    const auto ended = run.run();
    EXPECT_TRUE(ended[0].result.interrupted);
    return ended[0].result.summary.peak_bytes;
  };
  const std::int64_t begun = peak(), resumed = peak();
  EXPECT_LE(resumed - begun, 2 * kMegabyte) << begun << ": the state of a rank has 8 MB";
}

TEST(SaveMemory, IsNotPaidForByLaterValues) {
  for (const std::uint64_t most : {std::uint64_t{0}, std::uint64_t{100}, std::uint64_t{1} << 30}) {
    const testing::TemporaryFolder folder;
    const CheckpointFolder checkpoints(folder.path(), {.shard_bytes = 150});
    BackgroundSaver saver(checkpoints, most);
    Checkpoint state{.step = 3, .tensors = {}};
    for (int i = 0; i < 6; ++i) state.tensors.push_back({"t" + std::to_string(i), full({20}, i, DType::f32)});
    saver.save(state);
    for (auto& [name, tensor] : state.tensors) copy_into(tensor, full(tensor.shape(), -1.0, tensor.dtype()));
    ASSERT_TRUE(saver.wait()->result);
    const auto loaded = checkpoints.load(3).value();
    ASSERT_EQ(loaded.tensors.size(), 6U);
    for (const auto& [name, tensor] : loaded.tensors)
      EXPECT_EQ(tensor.to_vector(), std::vector<double>(20, name[1] - '0')) << name << " with " << most;
  }
}

}  // namespace
}  // namespace starling::train
