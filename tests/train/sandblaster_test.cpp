// Jobs of a procedure over parameter servers, all of their parts threads of this process.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "starling/base/error.h"
#include "starling/dist/ps/wire.h"
#include "starling/optim/lbfgs.h"
#include "starling/train/job/job_check.h"
#include "starling/train/job/job_run.h"
#include "starling/train/job/prepared_job.h"
#include "starling/train/monitor/json_log.h"
#include "starling/train/run/run_weights.h"
#include "train/tiny_fashion.h"

namespace starling::train {
namespace {

constexpr std::int64_t kSamples = 103;

// Weights of the model where the run begins, at the end of every epoch, and where it ends.
class Weights final : public Callback {
 public:
  std::string name() const override { return "weights"; }
  void begin(Run& run) override { first = of(run); }
  void epoch(Run& run) override { seen.push_back(of(run)); }
  void end(Run& run) override { last = of(run); }
  std::vector<std::vector<double>> seen;
  std::vector<double> first, last;

 private:
  static std::vector<double> of(Run& run) {
    std::vector<double> all;
    for (const auto& [name, tensor] : run.net().named_parameters()) {
      const auto part = tensor.to_vector();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
};

class Sandblaster : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!dist::ps::has_wire()) GTEST_SKIP() << "built without ZeroMQ";
    testing::write_tiny_fashion(data_.path(), kSamples, 40);
  }

  Job job(const std::string& folder, const std::string& distribute, std::vector<std::string> set = {}) const {
    const std::string text =
        "model: {name: mlp, hidden: [16]}\ndata: {batch: 32}\ntrain: {epochs: 6, seed: 7, export: false, resume: "
        "none}\n"
        "monitor: {scalars_every: 1, tensorboard: false}\ndistribute: {strategy: sandblaster, servers: 2, threads: "
        "1, " +
        distribute + "}\n";
    set.push_back("data.folder=" + data_.path().string());
    set.push_back("train.folder=" + (runs_.path() / folder).string());
    return read_job(ConfigNode::parse(text, "job.yaml", set));
  }
  static TrainResult run(const Job& job, TrainOptions options = {}) {
    options.progress.mode = ProgressMode::off;
    return run_job(job, options);
  }
  TrainResult run(const std::string& folder, const std::string& distribute, std::vector<std::string> set = {}) const {
    return run(job(folder, distribute, std::move(set)));
  }
  static double counter(const TrainResult& result, const std::string& name, std::size_t rank = 0) {
    return result.summary.ranks.at(rank).counters.at(name).get<double>();
  }
  // Loss of every step.
  std::vector<double> losses(const std::string& folder) const {
    std::vector<double> all;
    std::ifstream log(runs_.path() / folder / kLogName);
    for (std::string line; std::getline(log, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event.contains("loss") && event.contains("lr")) all.push_back(event.at("loss").get<double>());
    }
    return all;
  }
  // Options of a run that is asked to stop in the first evaluation after so many iterations in its log.
  TrainOptions stopping_after(const std::string& folder, std::size_t iterations) const {
    TrainOptions how;
    // Asked first between two iterations, and then before each round of portions.
    how.stop = [this, folder, iterations, asked = std::make_shared<int>(0)] {
      return losses(folder).size() >= iterations && (*asked)++ >= 1;
    };
    return how;
  }
  // Weights that the newest checkpoint of a run holds.
  std::vector<double> saved(const Job& job) const {
    const PreparedJob prepared = prepare_job(job);
    load_weights(*prepared.net, load_run_checkpoint(job.train.folder).value());
    std::vector<double> all;
    for (const Tensor& parameter : prepared.net->parameters()) {
      const auto part = parameter.to_vector();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  // Each portion of every evaluation is on every key once.
  static void expect_each_portion_once(const TrainResult& result, double pieces) {
    EXPECT_EQ(counter(result, "servers.portions"),
              counter(result, "procedure.evaluations") * pieces * counter(result, "servers.keys"));
  }

  testing::TestFolder data_{"sandblaster-data"};
  testing::TestFolder runs_{"sandblaster-runs"};
};

// The job's network and samples, all at once, under the serial optimizer.
struct Serial {
  explicit Serial(const Job& job) : prepared(prepare_job(job)) {
    Loader loader(prepared.data.splits.train,
                  {.batch = kSamples, .shuffle = false, .transforms = prepared.data.train_steps});
    for (const Tensor& field : loader.next()->fields) fields.push_back(copied(field));
    prepared.net->train();
  }
  Tensor loss() { return prepared.objective->apply(*prepared.net, {fields.data(), fields.size()}).loss; }
  std::vector<double> weights() const {
    std::vector<double> all;
    for (const Tensor& tensor : prepared.net->parameters()) {
      const auto part = tensor.to_vector();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  PreparedJob prepared;
  std::vector<Tensor> fields;
};

TEST_F(Sandblaster, MakesTheIteratesOfSerialLbfgs) {
  const auto weights = std::make_shared<Weights>();
  TrainOptions watched;
  watched.callbacks = {weights};
  const auto one = run(job("one", "workers: 1"), watched);
  ASSERT_EQ(weights->seen.size(), 6U);
  run("three", "workers: 3");
  const auto three = losses("three");
  ASSERT_EQ(three.size(), 6U);
  Serial serial(job("serial", "workers: 1"));
  optim::Lbfgs lbfgs(serial.prepared.net->parameters(), [&] { return serial.loss(); },
                     {.iterations = 1, .evaluations = 26});
  for (std::size_t step = 0; step < 6; ++step) {
    lbfgs.step();
    const auto expected = serial.weights();
    double apart = 0, moved = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      apart = std::max(apart, std::abs(weights->seen[step][i] - expected[i]));
      moved = std::max(moved, std::abs(weights->seen[step][i] - weights->seen[0][i]));
    }
    EXPECT_LT(apart, 2e-4) << "iteration " << step + 1 << ", in f32";
    EXPECT_TRUE(step == 0 || moved > 1e-2);
    const double loss = serial.loss().item();
    EXPECT_NEAR(three[step], loss, 2e-3 * loss) << "iteration " << step + 1 << " by three workers, in f32";
  }
  EXPECT_EQ(lbfgs.evaluations(), counter(one, "procedure.evaluations") + 5) << "each serial step begins with one more";
  expect_each_portion_once(one, 16);
}

// Law: what goes between leader and servers for a procedure is numbers, whatever the model's size.
TEST_F(Sandblaster, TheLeaderSendsNumbersWhateverTheSizeOfTheModel) {
  double requests = 0;
  for (const char* hidden : {"[8]", "[80]"}) {
    const auto result = run("sized", "workers: 2", {"train.epochs=1", std::string("model.hidden=") + hidden});
    EXPECT_EQ(counter(result, "procedure.bytes"), 0) << hidden;
    // As PsCoordinator.SendsTheSame…, and the scale of the sum of each evaluation.
    const double each = counter(result, "procedure.evaluations");
    EXPECT_EQ(counter(result, "procedure.requests"), 2 * (2 + 4 + 4 + 5 * (each - 1))) << hidden;
    requests += counter(result, "client.bytes_out", 1);
  }
  EXPECT_GT(requests, 0) << "control: workers send gradients";
}

TEST_F(Sandblaster, CountsEachPortionOnceBesideASlowWorkerWhosePortionsOthersMake) {
  const auto result = run("slow", "workers: 3, slow: [1, 1, 300], portions: 4");
  EXPECT_EQ(result.summary.steps, 6);
  expect_each_portion_once(result, 12);
  EXPECT_GT(counter(result, "servers.portions_duplicated"), 0);
  run("even", "workers: 1, portions: 12");
  const auto slow = losses("slow"), even = losses("even");
  ASSERT_EQ(slow.size(), even.size());
  for (std::size_t step = 0; step < slow.size(); ++step) EXPECT_NEAR(slow[step], even[step], 1e-4 * even[step]);
}

TEST_F(Sandblaster, LearnsByEveryProcedureAndOwlqnMakesExactZeros) {
  const auto trained = [&](const std::string& procedure) {
    const auto weights = std::make_shared<Weights>();
    TrainOptions watched;
    watched.callbacks = {weights};
    const auto result = run(job("all", "workers: 1, procedure: " + procedure, {"train.epochs=12"}), watched);
    const auto& last = weights->seen.back();
    return std::pair(result.summary.loss, std::count(last.begin(), last.end(), 0.0));
  };
  for (const char* procedure : {"lbfgs", "cg"}) {
    const auto [loss, zeros] = trained(procedure);
    EXPECT_LT(loss, 1.2) << procedure;
    EXPECT_LE(zeros, 26) << "control: the first biases at most";
  }
  const auto [loss, zeros] = trained("owlqn, l1: 0.003");
  EXPECT_LT(loss, 2.2);
  EXPECT_GT(zeros, 6000) << "of 12730 weights";
}

TEST_F(Sandblaster, EndsWhereNothingIsGainedAnyMore) {
  const auto result = run("ended", "workers: 2, procedure: owlqn, l1: 50", {"train.epochs=40"});
  EXPECT_LT(result.summary.steps, 40) << "all weights are 0 under such a penalty, but for those of no use";
  EXPECT_NE(result.ended_by.find("nothing to gain"), std::string::npos) << result.ended_by;
  EXPECT_TRUE(result.saved);
}

// The trial point of the first search has weights whose products over four layers are beyond f32.
TEST_F(Sandblaster, TriesAShorterStepWhereATrialPointOverflows) {
  for (const char* procedure : {"lbfgs", "owlqn, l1: 0.0001, evaluations: 80"}) {
    const auto result =
        run("far", std::string("workers: 2, lr: 1.0e+13, procedure: ") + procedure, {"model.hidden=[16, 16, 16]"});
    EXPECT_GT(counter(result, "procedure.points_refused"), 0) << procedure << ": control, some point overflows";
    const auto all = losses("far");
    ASSERT_FALSE(all.empty()) << procedure;
    EXPECT_LT(all.back(), std::log(10.0)) << procedure << ": less than of a model that knows nothing";
  }
}

// One worker, so that sums have one order: the weights are those of a run that ends there, not those of a trial point.
TEST_F(Sandblaster, LeavesAnIterationWhenAskedToStopAndKeepsTheWeightsOfTheLastOne) {
  for (const std::string procedure : {"lbfgs", "owlqn, l1: 0.003"}) {
    const auto run_of = [&](const std::string& folder, std::vector<std::string> set, std::size_t stop_after) {
      const Job one = job(folder, "workers: 1, procedure: " + procedure, std::move(set));
      const auto result = run(one, stop_after > 0 ? stopping_after(folder, stop_after) : TrainOptions());
      EXPECT_EQ(result.stopped, stop_after > 0) << procedure;
      return std::pair(result.summary.steps, saved(one));
    };
    const auto one = run_of("one", {"train.epochs=1"}, 0), two = run_of("two", {"train.epochs=2"}, 0);
    const auto left = run_of("left", {}, 2);
    EXPECT_EQ(left.first, 2) << procedure;
    EXPECT_EQ(left.second, two.second) << procedure;
    EXPECT_NE(one.second, two.second) << procedure << ": control";
  }
}

TEST_F(Sandblaster, GoesOnFromItsCheckpoint) {
  const Job broken = job("broken", "workers: 2", {"train.resume=auto"});
  EXPECT_TRUE(run(broken, stopping_after("broken", 3)).stopped);
  const std::vector<double> before = saved(broken);
  // Stopped in its first evaluation: the servers have the weights that they were given.
  EXPECT_TRUE(run(broken, stopping_after("broken", 3)).stopped);
  EXPECT_EQ(saved(broken), before);
  EXPECT_EQ(run(broken).summary.steps, 6);
  EXPECT_NE(saved(broken), before) << "control: the rest is trained";
  const auto all = losses("broken");
  ASSERT_EQ(all.size(), 6U);
  for (std::size_t step = 1; step < all.size(); ++step) EXPECT_LT(all[step], all[step - 1]);
}

TEST_F(Sandblaster, SaysWhatItDoesNotUseAndWhatMakesItsLossNoisy) {
  const auto notes = [&](std::vector<std::string> set) {
    const JobCheck check = check_job(job("noted", "workers: 2", std::move(set)));
    std::string all;
    for (const auto& problem : check.problems) all += "problem: " + problem;
    for (const auto& note : check.notes) all += note + "\n";
    return all;
  };
  const std::string plain = notes({});
  EXPECT_NE(plain.find("the optimizer and data.batch are not used"), std::string::npos) << plain;
  EXPECT_EQ(plain.find("warning"), std::string::npos) << plain;
  EXPECT_NE(notes({"data.augment=[{name: random_crop, padding: 2}]"}).find("augmentation makes them another function"),
            std::string::npos);
  EXPECT_NE(notes({"model={layers: [{flatten: {}}, {dropout: {p: 0.5}}, {linear: {out: 10}}]}"}).find("noise in the"),
            std::string::npos);
  EXPECT_TRUE(notes({"distribute.strategy=async"}).empty()) << "control: steps of an optimizer";
  EXPECT_THROW(job("refused", "workers: 2, l1: 0.1"), Error);
}

}  // namespace
}  // namespace starling::train
