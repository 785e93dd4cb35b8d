// Ranks whose gradients travel in the wire form of a codec: whole runs, with checkpoints and other numbers of ranks.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <numeric>

#include "dist/transport_worlds.h"
#include "starling/base/error.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/job/job.h"
#include "starling/train/ranks/link.h"
#include "train/ranks_testing.h"

namespace starling::train {
namespace {

using dist::GradientForm;
using testing::points;
using testing::RankRun;
using testing::splits;

testing::MakeStrategy coded(const std::string& codec) {
  return [codec](auto comm) { return allreduce(std::move(comm), {.codec = dist::CodecChoice::parse(codec)}); };
}

RankRun recipe(int ranks, const std::string& codec) {
  RankRun made{.ranks = ranks, .options = {.epochs = 4, .batch = 32}, .data = splits(points(128))};
  made.options.hash_every = 1;  // a replica that differs would be named
  made.strategy = coded(codec);
  return made;
}

double last_loss(const std::vector<testing::RankOutcome>& outcomes) {
  const auto& losses = outcomes[0].losses;
  return std::accumulate(losses.end() - 4, losses.end(), 0.0) / 4;
}

TEST(CodecRanks, LearnByEveryCodecAndStayEqual) {
  const double dense = last_loss(recipe(2, "none").run());
  for (const auto& [name, kind] : dist::codec_kinds().all()) {
    const std::string codec = name == "top_k"       ? "{name: top_k, share: 0.2}"
                              : name == "threshold" ? "{name: threshold, threshold: 0.02}"
                                                    : name;
    const auto outcomes = recipe(2, codec).run();
    EXPECT_EQ(outcomes[0].hash, outcomes[1].hash) << name;
    EXPECT_LT(last_loss(outcomes), 0.8 * outcomes[0].losses[0]) << name;
  }
  EXPECT_NEAR(last_loss(recipe(2, "fp16").run()), dense, 1e-2);
  EXPECT_NEAR(last_loss(recipe(3, "{name: top_k, share: 1}").run()), last_loss(recipe(3, "none").run()), 1e-4);
  EXPECT_NEAR(last_loss(recipe(2, "{name: power_sgd, rank: 64}").run()), dense, 1e-2);
}

TEST(CodecRanks, WithOneRankSendNothingAndLoseNothing) {
  const std::string dense = recipe(1, "none").run()[0].hash;
  for (const auto& [name, kind] : dist::codec_kinds().all()) EXPECT_EQ(recipe(1, name).run()[0].hash, dense) << name;
}

// Bytes of all kinds of exchanges that a step takes, of both ranks: which lines are whose depends on the order of the
// gradients.
std::vector<std::unique_ptr<Comm>> slow_link(int ranks) {
  const auto network = dist::make_memory_network(ranks, {.usual = {.bytes_per_second = 3e6}});
  return dist::make_transport_comms(network, ranks, dist::with_test_costs());
}

// Forms of gradients after a step, and how many went each way.
std::map<GradientForm, int> forms_of(Run& run) {
  std::map<GradientForm, int> found;
  for (const auto& [name, value] : run.link()->strategy().counters()) {
    if (name.starts_with("codec_form.")) ++found[static_cast<GradientForm>(static_cast<int>(value))];
  }
  return found;
}

// Over a slow link bits are the fastest; what they keep is more than nothing, so that all ranks turn to another form
// before the same step.
// Label: waits
TEST(CodecRanks, ChooseFormsAgainTogether) {
  using Forms = std::map<GradientForm, int>;
  const auto forms = [&](const std::string& options) {
    RankRun made = recipe(2, "{name: auto, " + options + "}");
    made.world = slow_link;
    std::vector<Forms> first(2), last(2);
    made.callbacks = [&](Trainer& trainer, int rank) {
      trainer.add(after_step([&, rank](starling::Run& run) {
        (run.state().step == 2 ? first : last)[static_cast<std::size_t>(rank)] = forms_of(run);
      }));
    };
    const auto outcomes = made.run();
    EXPECT_EQ(outcomes[0].hash, outcomes[1].hash) << options;
    EXPECT_LT(last_loss(outcomes), 0.8 * outcomes[0].losses[0]) << options;
    EXPECT_EQ(first[0], first[1]) << options;
    EXPECT_EQ(last[0], last[1]) << options;
    return std::pair(first[0], last[0]);
  };
  const auto [before, after] = forms("every: 5, most_error: 0");
  EXPECT_GT(before.count(GradientForm::one_bit), 0U);
  EXPECT_EQ(after.count(GradientForm::one_bit), 0U) << "too much is kept";
  const auto [start, end] = forms("every: 0, most_error: 0");
  EXPECT_EQ(start, end) << "control: it chooses once";
  const auto [exact, still] = forms("every: 5, lossy: false");
  EXPECT_EQ(exact.count(GradientForm::one_bit) + exact.count(GradientForm::bf16), 0U) << "control";
}

TEST(CodecRanks, AccumulateBatchesAndExchangeOnce) {
  const auto counted = [](const std::string& codec, std::int64_t accumulate, double& bytes) {
    RankRun run = recipe(2, codec);
    run.options.accumulate = accumulate;
    double first[2] = {}, each[2] = {};
    run.callbacks = [&](Trainer& trainer, int rank) {
      trainer.add(after_step([&, rank](starling::Run& now) {
        double sent = 0;
        for (int op = 0; op < kCommOpCount; ++op)
          sent += static_cast<double>(now.link()->strategy().exchanged(static_cast<CommOp>(op)).bytes_sent);
        const std::int64_t step = now.state().step;
        if (step == 1) first[rank] = sent;
        if (step > 1) each[rank] = (sent - first[rank]) / static_cast<double>(step - 1);
      }));
    };
    const auto outcomes = run.run();
    bytes = each[0] + each[1];
    return outcomes;
  };
  for (const char* codec : {"one_bit", "top_k", "fp16"}) {
    double each = 0, pairs = 0;
    counted(codec, 1, each);
    const auto outcomes = counted(codec, 2, pairs);
    EXPECT_GT(pairs, 0.5 * each);
    EXPECT_LT(pairs, 1.5 * each) << codec;  // an exchange for every batch would double it; one under way may be missing
    EXPECT_LT(last_loss(outcomes), outcomes[0].losses[0]);
  }
}

// Stripes follow from all tensors of an exchange, and with them what is coded: there bits differ, and losses do not.
TEST(CodecRanks, SmallGradientsShareAnExchange) {
  for (const char* codec : {"fp16", "one_bit", "top_k", "threshold", "power_sgd"}) {
    std::uint64_t calls[2] = {};
    std::string hashes[2];
    double losses[2] = {};
    for (const int shared : {0, 1}) {
      RankRun run = recipe(2, codec);
      run.strategy = [&](auto comm) {
        return allreduce(comm, {.bucket_mb = shared ? 25.0 : 0.0, .codec = dist::CodecChoice::parse(codec)});
      };
      run.callbacks = [&](Trainer& trainer, int rank) {
        if (rank > 0) return;
        trainer.add(after_step([&, shared](starling::Run& now) {
          for (const CommOp op : {CommOp::all_gather, CommOp::all_reduce})
            calls[shared] += now.link()->strategy().exchanged(op).calls;
        }));
      };
      const auto outcomes = run.run();
      hashes[shared] = outcomes[0].hash;
      losses[shared] = last_loss(outcomes);
    }
    const bool striped = codec == std::string("fp16") || codec == std::string("one_bit");
    EXPECT_TRUE(striped || hashes[0] == hashes[1]) << codec;
    EXPECT_NEAR(losses[0], losses[1], striped ? 0.1 : 0.0) << codec;
    EXPECT_LT(calls[1], calls[0]) << codec;
  }
}

// 1-bit gradients without the carried error: small values of a line are rounded to its large ones for ever.
TEST(CodecRanks, WithoutFeedbackOneBitTrainingStalls) {
  const auto end = [](const std::string& codec) {
    RankRun run = recipe(2, codec);
    run.options.epochs = 20;
    run.rate = 0.05;
    return last_loss(run.run());
  };
  const double dense = end("none"), with = end("one_bit"), without = end("{name: one_bit, feedback: false}");
  EXPECT_LT(with, 2 * dense + 0.02);
  EXPECT_GT(without, 1.5 * with) << "dense " << dense << ", with " << with;
}

std::string refusal(const std::string& job) {
  const auto errors = job_errors(ConfigNode::parse(job, "job.yaml"));
  return errors.empty() ? "" : errors.front();
}

TEST(CodecJobs, AreRefusedWithWhatWasExpected) {
  const std::string start = "model: {name: lenet}\n";
  EXPECT_EQ(refusal(start + "distribute: {workers: 2, codec: one_bit}\n"), "");
  EXPECT_EQ(
      refusal(start + "distribute: {workers: 2, codec: {name: top_k, momentum: 0.9}}\noptimizer: {momentum: 0}\n"), "");
  const auto refused = [&](const std::string& job, const std::string& part) {
    const std::string said = refusal(job);
    EXPECT_NE(said.find(part), std::string::npos) << job << said;
  };
  refused(start + "distribute: {workers: 2, codec: one_bits}\n", "did you mean 'one_bit'?");
  refused(start + "distribute: {workers: 2, codec: {name: one_bit, share: 1}}\n", "got 'share'");
  refused(start + "distribute: {workers: 2, codec: {name: top_k, share: 7}}\n", "got '7'");
  refused(start + "distribute: {workers: 2, strategy: local_sgd, codec: fp16}\n", "'codec'");
  refused(start + "distribute: {workers: 2, deterministic: true, codec: fp16}\n",
          "job.yaml:2:54: [config] expected none where deterministic is true");
  refused(start + "train: {precision: f16}\ndistribute: {workers: 2, codec: bf16}\n", "train.precision is f16");
  refused(start + "train: {device: cuda}\ndistribute: {workers: 2, codec: bf16}\n", "train.device is cuda");
  refused(start + "optimizer: {momentum: 0.9}\ndistribute: {workers: 2, codec: {name: top_k, momentum: 0.9}}\n",
          "momentum: 0, here or of the optimizer");
}

class CodecCheckpoints : public ::testing::Test {
 protected:
  RankRun saved(const std::string& folder, int ranks, const std::string& codec) const {
    RankRun made = recipe(ranks, codec);
    made.options.folder = runs_.path() / folder;
    made.callbacks = [](Trainer& trainer, int) { trainer.add(checkpoints()); };
    return made;
  }
  static void stop_after(RankRun& recipe, int steps) {
    auto asked = std::make_shared<std::atomic<int>>(0);
    recipe.options.stop = [asked, steps] { return thread_rank() == 0 && (*asked)++ >= steps; };
  }

  testing::TestFolder runs_{"codec-runs"};
};

TEST_F(CodecCheckpoints, ResumeToTheSameBits) {
  int number = 0;
  for (const char* codec : {"one_bit", "{name: top_k, share: 0.1, momentum: 0.5, warmup: 8}", "power_sgd"}) {
    const std::string straight = recipe(2, codec).run()[0].hash;
    const std::string folder = "broken-" + std::to_string(number++);
    RankRun first = saved(folder, 2, codec);
    stop_after(first, 5);
    EXPECT_TRUE(first.run()[0].result.interrupted);
    EXPECT_EQ(saved(folder, 2, codec).run()[0].hash, straight) << codec;
  }
}

// Nothing reaches a threshold of a thousand: weights stay, and what is kept is the sum of all gradients so far.
class KeptByAll {
 public:
  std::vector<double> sum;

  testing::MakeStrategy strategy() {
    return [this](auto comm) {
      const auto made = coded("{name: threshold, threshold: 1000}")(comm);
      const std::scoped_lock lock(mutex_);
      strategies_.push_back(made);
      return made;
    };
  }
  void add_up() {
    for (const auto& strategy : strategies_) {
      std::size_t at = 0;
      for (const auto& [name, tensor] : strategy->tensors()) {
        for (const double value : tensor.to_vector()) {
          if (sum.size() <= at) sum.push_back(0);
          sum[at++] += value;
        }
      }
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<dist::RankStrategy>> strategies_;
};

TEST_F(CodecCheckpoints, AnotherNumberOfRanksTakesOverWhatAllKept) {
  const auto kept = [&](const std::string& folder, int ranks, int steps) {
    RankRun run = saved(folder, ranks, "none");
    KeptByAll all;
    run.strategy = all.strategy();
    if (steps > 0) stop_after(run, steps);
    const auto outcomes = run.run();
    all.add_up();
    return all.sum;
  };
  const auto straight = kept("straight", 2, 0);
  ASSERT_FALSE(straight.empty());
  const auto half = kept("broken", 3, 6);
  const auto rest = kept("broken", 2, 0);
  double most = 0, size = 0, moved = 0;
  for (std::size_t i = 0; i < straight.size(); ++i) {
    most = std::max(most, std::abs(rest[i] - straight[i]));
    size = std::max(size, std::abs(straight[i]));
    moved = std::max(moved, std::abs(straight[i] - half[i]));
  }
  EXPECT_GT(size, 0.1);
  EXPECT_LT(most, 1e-4 * size);
  EXPECT_GT(moved, 0.1 * size) << "control: it went on";
}

// A sum of the other ranks' parts would pass for the whole. Control: the checkpoint that was saved is resumed.
TEST_F(CodecCheckpoints, ThatLackARanksPartAreRefusedByAnotherNumber) {
  const std::string codec = "{name: threshold, threshold: 1000}";
  for (const std::string missing : {"none", "rank.0.strategy.", "rank.2.strategy."}) {
    SCOPED_TRACE(missing);
    RankRun first = saved("without-" + missing, 3, codec);
    stop_after(first, 6);
    EXPECT_TRUE(first.run()[0].result.interrupted);
    const CheckpointFolder folder(runs_.path() / ("without-" + missing) / "checkpoints");
    Checkpoint changed = folder.load_latest()->checkpoint;
    const auto removed = std::erase_if(changed.tensors, [&](const auto& one) { return one.name.starts_with(missing); });
    EXPECT_EQ(removed > 0, missing != "none");
    ASSERT_TRUE(folder.save(changed).ok());
    std::string said;
    try {
      saved("without-" + missing, 2, codec).run();
    } catch (const Error& error) {
      said = error.what();
    }
    if (missing == "none")
      EXPECT_EQ(said, "");
    else
      EXPECT_NE(said.find("expected the checkpoint to hold '" + missing), std::string::npos) << said;
  }
}

// A single rank has nobody to send to: what all kept reaches the weights.
TEST_F(CodecCheckpoints, ASingleRankReleasesWhatAllKept) {
  const std::string codec = "{name: threshold, threshold: 1000}";
  RankRun first = saved("alone", 2, codec);
  stop_after(first, 6);
  const std::string untouched = first.run()[0].hash;
  EXPECT_EQ(recipe(2, codec).run()[0].hash, untouched) << "control: nothing was sent";
  EXPECT_NE(saved("alone", 1, codec).run()[0].hash, untouched);
}

}  // namespace
}  // namespace starling::train
