#include "starling/train/job/job_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "starling/base/error.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/job/prepared_job.h"
#include "starling/train/loop/interrupt.h"
#include "starling/train/saved_model/saved_model.h"
#include "train/tiny_fashion.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

class JobRunTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_tiny_fashion(data_.path(), 110, 40); }

  // Batches of 16: six full ones and a tail of 14.
  Job job(const std::string& name, const std::vector<std::string>& set = {}) const {
    const std::string text =
        "model: {name: mlp}\ndata: {folder: '" + data_.path().string() +
        "', batch: 16}\noptimizer: {lr: 0.05, momentum: 0.9}\ntrain: {epochs: 2, seed: 7, folder: '" +
        (runs_.path() / name).string() + "'}\ndistribute: {threads: 1}\n";
    return read_job(ConfigNode::parse(text, "job.yaml", set));
  }

  static TrainOptions quiet() {
    TrainOptions options;
    options.progress.mode = ProgressMode::off;
    return options;
  }

  // Runs a job quietly, stopping after `stop_after` steps.
  static TrainResult run(const Job& job, std::int64_t stop_after = -1) {
    std::int64_t asked = 0;
    TrainOptions options = quiet();
    if (stop_after >= 0) options.stop = [&asked, stop_after] { return asked++ >= stop_after; };
    return run_job(job, options);
  }

  std::string hash_after(Job job) const { return run(job).summary.weights_hash; }

  // Hash after stopping at `steps` steps and resuming to the end.
  std::string hash_with_a_break(const Job& job, std::int64_t steps) const {
    EXPECT_TRUE(run(job, steps).stopped);
    const TrainResult rest = run(job);
    EXPECT_FALSE(rest.stopped);
    return rest.summary.weights_hash;
  }

  testing::TestFolder data_{"trainer-data"};
  testing::TestFolder runs_{"trainer-runs"};
};

// The job's own network, made by the program in its place, ends in the same weights; callbacks run beside the job's.
TEST_F(JobRunTest, TrainsANetworkOfTheProgramsOwn) {
  const std::vector<std::string> pictures = {"model.name=lenet", "train.epochs=1"};
  const std::string wanted = hash_after(job("by_the_job", pictures));
  const Job by_program = job("by_the_program", pictures);
  TrainOptions options = quiet();
  options.net = prepare_job(by_program).net;
  std::int64_t steps = 0;
  options.callbacks.push_back(after_step([&](starling::Run&) { ++steps; }));
  const TrainResult result = run_job(by_program, options);
  EXPECT_EQ(result.summary.weights_hash, wanted);
  EXPECT_EQ(steps, result.summary.steps);
}

// Callbacks run once: the threads belong to one trainer.
TEST_F(JobRunTest, TrainsANetworkOfTheProgramsOwnOnSeveralThreads) {
  std::vector<std::string> pictures = {"model.name=lenet", "train.epochs=1", "distribute.deterministic=true"};
  const std::string wanted = hash_after(job("alone", pictures));
  pictures.emplace_back("distribute.workers=2");
  const Job two = job("threads", pictures);
  TrainOptions options = quiet();
  options.net = prepare_job(two).net;
  std::int64_t steps = 0;
  options.callbacks.push_back(after_step([&](starling::Run&) { ++steps; }));
  const TrainResult result = run_job(two, options);
  EXPECT_EQ(result.summary.weights_hash, wanted);
  EXPECT_EQ(steps, result.summary.steps);
}

TEST_F(JobRunTest, RefusesWhatThreadsOfOneTrainerCannotDo) {
  const Job two = job("threads", {"distribute.workers=2", "distribute.strategy=local_sgd"});
  TrainOptions options = quiet();
  options.net = prepare_job(two).net;
  try {
    static_cast<void>(run_job(two, options));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("got local_sgd"), std::string::npos) << error.what();
  }
}

TEST_F(JobRunTest, LearnsAndLeavesASummary) {
  Job job = this->job("learns");
  job.train.epochs = 6;
  const TrainResult result = run(job);
  EXPECT_EQ(result.summary.steps, 6 * 7);
  EXPECT_GT(result.summary.metrics.at("test_accuracy"), 0.9);
  EXPECT_LT(result.summary.loss, 0.5);
  EXPECT_GT(result.summary.samples_per_s, 0);
  EXPECT_GT(result.summary.peak_bytes, 0);
  const auto json = nlohmann::json::parse(text_of(job.train.folder / "summary.json"));
  for (const char* key : {"steps", "samples_per_s", "loss", "metrics", "peak_bytes", "weights_hash"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["weights_hash"], result.summary.weights_hash);
  const Job written = read_job(ConfigNode::load(job.train.folder / "job.yaml"));
  EXPECT_EQ(job_identity(written), job_identity(prepare_job(job).job));
  EXPECT_EQ(to_yaml(written), text_of(job.train.folder / "job.yaml"));
}

TEST_F(JobRunTest, ResumesToTheSameBitsWithOneThread) {
  const std::string straight = hash_after(job("straight"));
  EXPECT_EQ(hash_with_a_break(job("at-epoch"), 7), straight);
  EXPECT_EQ(hash_with_a_break(job("in-epoch"), 3), straight);
  Job other = job("other-seed");
  other.train.seed = 8;
  EXPECT_NE(hash_after(other), straight);
}

TEST_F(JobRunTest, ResumesToTheSameBitsWithAnyWorkersInDeterministicMode) {
  const Job whole = job("whole", {"distribute={workers: 1, deterministic: true, shards: 6, threads: 1}"});
  const std::string straight = hash_after(whole);
  Job broken = whole;
  broken.train.folder = runs_.path() / "broken";
  broken.distribute.workers = 2;
  EXPECT_TRUE(run(broken, 9).stopped);
  broken.distribute.workers = 3;
  EXPECT_EQ(hash_after(broken), straight);
}

TEST_F(JobRunTest, TwoWorkersLearnWhatOneDoes) {
  const TrainResult one = run(job("one"));
  const Job job = this->job("two", {"distribute={workers: 2, threads: 2}"});
  const TrainResult two = run(job);
  EXPECT_NEAR(one.summary.loss, two.summary.loss, 1e-3);
  EXPECT_EQ(one.summary.metrics, two.summary.metrics);
}

TEST_F(JobRunTest, AFinishedRunIsNotTrainedAgain) {
  const Job job = this->job("finished");
  const TrainResult first = run(job);
  const TrainResult second = run(job);
  EXPECT_EQ(second.summary.steps, first.summary.steps);
  EXPECT_EQ(second.summary.weights_hash, first.summary.weights_hash);
  EXPECT_EQ(second.summary.metrics, first.summary.metrics);
  EXPECT_EQ(second.summary.loss, first.summary.loss);
}

TEST_F(JobRunTest, StartsOverWhenAskedAndKeepsTheOldCheckpoints) {
  Job job = this->job("over");
  const std::string first = hash_after(job);
  job = this->job("over", {"optimizer.lr=0.01", "train.resume=none"});
  EXPECT_NE(hash_after(job), first);
  EXPECT_TRUE(fs::exists(job.train.folder / "checkpoints-before-1" / "step-00000014"));
}

TEST_F(JobRunTest, RefusesTheCheckpointsOfAnotherJobNamingTheDifference) {
  Job job = this->job("other-job");
  run(job);
  job = this->job("other-job", {"optimizer.lr=0.01"});
  try {
    run(job);
    FAIL() << "expected a refusal";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("optimizer.lr was 0.05, is 0.01"), std::string::npos) << e.what();
  }
}

TEST_F(JobRunTest, StopsOnALossThatIsNotFiniteNamingTheStep) {
  Job job = this->job("diverges", {"optimizer.lr=1e6"});
  job.train.epochs = 20;
  try {
    run(job);
    FAIL() << "expected the loss to become infinite";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("expected a finite loss"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("at step"), std::string::npos) << e.what();
  }
}

TEST_F(JobRunTest, GoesOnWhenACheckpointCannotBeSaved) {
  Job job = this->job("unwritable");
  fs::create_directories(job.train.folder);
  std::ofstream(job.train.folder / "checkpoints") << "a file where a folder should be";
  std::ostringstream told;
  TrainOptions options;
  options.progress.mode = ProgressMode::plain;
  options.progress.out = &told;
  const TrainResult result = run_job(job, options);
  EXPECT_EQ(result.summary.steps, 14);
  EXPECT_FALSE(result.saved);
  EXPECT_NE(told.str().find("training goes on"), std::string::npos) << told.str();
}

TEST_F(JobRunTest, StoppedWhilePretrainingItSavesNothingAndBeginsAnew) {
  const Job job = this->job("pretrained", {"model={name: sae_small}", "pretrain={name: rbm, epochs: 2}"});
  std::int64_t asked = 0;
  TrainOptions options = quiet();
  options.stop = [&asked] { return ++asked > 2; };
  EXPECT_THROW(run_job(job, options), Interrupted);
  EXPECT_EQ(asked, 3) << "asked after every epoch of a layer";
  EXPECT_FALSE(fs::exists(job.train.folder / "checkpoints"));
  EXPECT_EQ(run(job).summary.steps, 14);
}

TEST_F(JobRunTest, MetricsOfAveragedWeightsNeedAveraging) {
  for (const char* set : {"train.average=null", "train.average={decay: 0}"}) {
    const Job job = this->job("averaged", {"train.best=ema_accuracy", set});
    EXPECT_THROW(run(job), Error) << set;
  }
  const Job job = this->job("averaged", {"train.best=ema_accuracy", "train.average={decay: 0.5, from_step: 10}",
                                         "train.early_stop={metric: ema_loss}"});
  EXPECT_TRUE(run(job).summary.metrics.contains("ema_test_accuracy"));
}

TEST_F(JobRunTest, RefusesADeviceThatIsNotThere) {
  const auto refusal = [&](const std::string& device) -> std::string {
    try {
      run(job("device", {"train.device=" + device}));
    } catch (const Error& error) {
      return error.what();
    }
    return "it ran";
  };
  EXPECT_NE(refusal("tpu").find("[train] expected a device (cpu, cuda), got 'tpu'"), std::string::npos);
  EXPECT_NE(refusal("cuda:200").find("[train] expected a GPU for 'cuda:200'"), std::string::npos);
}

TEST_F(JobRunTest, EndsAfterTheGivenStepsAndGoesOnWhenGivenMore) {
  const std::string straight = hash_after(job("uncapped"));
  Job job = this->job("capped");
  job.train.steps = 5;
  const TrainResult capped = run(job);
  EXPECT_EQ(capped.summary.steps, 5);
  EXPECT_TRUE(capped.summary.metrics.contains("test_accuracy"));
  job.train.steps = 0;
  EXPECT_EQ(hash_after(job), straight);
}

TEST_F(JobRunTest, WritesAChromeTraceWhenAsked) {
  const Job job = this->job("traced");
  const fs::path file = runs_.path() / "trace.json";
  TrainOptions options = quiet();
  options.trace = file;
  run_job(job, options);
  const auto json = nlohmann::json::parse(text_of(file));
  EXPECT_FALSE((json.is_array() ? json : json.at("traceEvents")).empty());
}

TEST_F(JobRunTest, LeavesASavedModelThatGivesWhatTheNetworkGives) {
  const Job job = this->job("exported", {"train.epochs=6"});
  const TrainResult result = run(job);
  EXPECT_EQ(result.model_error, "");
  SavedModel model = SavedModel::load(result.model).value();
  const ModelSignature& signature = model.signature();
  EXPECT_EQ(signature.task, "classify");
  EXPECT_EQ(signature.inputs.at(0).sample, (Shape{784}));
  EXPECT_EQ(signature.outputs.at(0).sample, (Shape{10}));
  EXPECT_EQ(signature.class_names.size(), 10U);
  EXPECT_EQ(signature.about.at("weights_hash"), result.summary.weights_hash);
  // As well as the network itself on the test images.
  const PreparedJob prepared = prepare_job(job);
  const Dataset& test = *prepared.data.splits.test;
  Tensor x = empty({test.size(), 1, 28, 28}, DType::f32);
  Tensor y = empty({test.size()}, DType::i64);
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < test.size(); ++i) rows.push_back(i);
  const std::vector<Tensor> fields{x, y};
  test.gather(rows, fields);
  const Shape flat{test.size(), 784};
  const Tensor logits = model.run(view_of(x, flat, contiguous_strides(flat), 0));
  std::int64_t hits = 0;
  for (std::int64_t i = 0; i < test.size(); ++i) {
    const float* row = logits.data<float>() + i * 10;
    hits += std::max_element(row, row + 10) - row == y.data<std::int64_t>()[i] ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(hits) / static_cast<double>(test.size()), result.summary.metrics.at("test_accuracy"),
              1e-9);
}

TEST_F(JobRunTest, TrainsADeclaredNetwork) {
  const std::string text =
      "model:\n  layers:\n    - flatten: {}\n    - linear: {out: 32}\n    - relu: {}\n"
      "    - linear: {out: 10}\ndata: {folder: '" +
      data_.path().string() + "', batch: 16}\noptimizer: {lr: 0.05, momentum: 0.9}\ntrain: {epochs: 6, folder: '" +
      (runs_.path() / "declared").string() + "'}\n";
  const TrainResult result = run(read_job(ConfigNode::parse(text, "job.yaml")));
  EXPECT_GT(result.summary.metrics.at("test_accuracy"), 0.9);
  EXPECT_EQ(result.model_error, "");
}

TEST_F(JobRunTest, TakesWhatTheJobSaysOfOptimizerScheduleMetricsAndAverages) {
  const Job job = this->job(
      "rich", {"optimizer={name: adamw, lr: 0.002, groups: [{match: '*.bias', weight_decay: 0}]}",
               "schedule={name: cosine, warmup: {steps: 2}}", "train.epochs=4", "train.metrics=[accuracy, loss]",
               "train.best=accuracy", "train.clip_norm=1", "train.average={decay: 0.5}", "data.labels=60"});
  const TrainResult result = run(job);
  EXPECT_EQ(result.summary.steps, 4 * 4) << "60 samples in batches of 16";
  for (const char* metric : {"test_accuracy", "test_loss", "ema_test_accuracy"})
    EXPECT_TRUE(result.summary.metrics.contains(metric)) << metric;
  EXPECT_TRUE(fs::exists(job.train.folder / "checkpoints-best"));
  const Job wrong = this->job("wrong", {"train.best=acuracy"});
  try {
    run(wrong);
    FAIL() << "expected a refusal";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("test_accuracy"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace starling::train
