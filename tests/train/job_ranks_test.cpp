// Jobs with several workers, as threads of this process.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "starling/base/error.h"
#include "starling/dist/ps/wire.h"
#include "starling/dist/strategy/servers/server_rule.h"
#include "starling/train/job/job_check.h"
#include "starling/train/job/job_run.h"
#include "starling/train/job/prepared_job.h"
#include "starling/train/monitor/json_log.h"
#include "starling/train/run/run_weights.h"
#include "starling/train/run/weights_hash.h"
#include "train/tiny_job.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;

nlohmann::json json_in(const fs::path& file) {
  std::ifstream in(file);
  return nlohmann::json::parse(in);
}

class JobRanks : public TinyJobTest {
 protected:
  JobRanks() : TinyJobTest("job-ranks", "{name: mlp}") {}
};

TEST_F(JobRanks, WorkersLearnWhatOneDoes) {
  const Summary one = run("one", {}).summary;
  for (const char* workers : {"2", "3"}) {
    const Summary some = run(std::string("some-") + workers, {std::string("distribute.workers=") + workers}).summary;
    EXPECT_EQ(some.steps, one.steps);
    EXPECT_NEAR(some.loss, one.loss, 1e-3);
    EXPECT_EQ(some.metrics, one.metrics);
  }
}

TEST_F(JobRanks, EndInTheSameBitsForAnyNumberOfWorkersInDeterministicMode) {
  std::set<std::string> hashes;
  for (const char* workers : {"1", "2", "3", "4"}) {
    const auto result = run(std::string("d-") + workers, {std::string("distribute.workers=") + workers,
                                                          "distribute.deterministic=true", "distribute.shards=6"});
    hashes.insert(result.summary.weights_hash);
  }
  EXPECT_EQ(hashes.size(), 1U);
}

TEST_F(JobRanks, GoOnWithAnotherNumberOfWorkersToTheSameBits) {
  const std::vector<std::string> fixed = {"distribute.deterministic=true", "distribute.shards=6"};
  const auto with = [&](const std::string& workers) {
    std::vector<std::string> set = fixed;
    set.push_back("distribute.workers=" + workers);
    return set;
  };
  const std::string straight = run("straight", with("1")).summary.weights_hash;
  TrainOptions stopped;
  int asked = 0;
  stopped.stop = [&asked] { return asked++ >= 5; };
  EXPECT_TRUE(run(job("broken", with("3")), stopped).stopped);
  const TrainResult rest = run("broken", with("2"));
  EXPECT_FALSE(rest.stopped);
  EXPECT_EQ(rest.summary.weights_hash, straight);
}

TEST_F(JobRanks, NormaliseTheWholeBatchWhereTheJobSaysSo) {
  const std::string net =
      "model={layers: [{conv2d: {out: 4, kernel: 5, stride: 4}}, {batch_norm2d: {}}, {relu: {}}, "
      "{flatten: {}}, {linear: {out: 10}}]}";
  const double one = run("bn-one", {net}).summary.loss;
  const double global = run("bn-global", {net, "distribute={workers: 3, batch_norm: global}"}).summary.loss;
  const double local = run("bn-local", {net, "distribute={workers: 3}"}).summary.loss;
  EXPECT_NEAR(global, one, 1e-4);
  EXPECT_GT(std::abs(local - one), 1e-3);
  EXPECT_THROW(run("bn-apart", {net, "distribute={workers: 2, batch_norm: global, strategy: local_sgd}"}), Error);
}

// Every registered strategy with default options.
TEST_F(JobRanks, TrainByEveryStrategy) {
  ASSERT_FALSE(dist::strategy_kinds().all().empty());
  for (const auto& [name, kind] : dist::strategy_kinds().all()) {
    const bool served = dist::server_rule(kind.make(kind.defaults.get())).has_value();
    if (served && !dist::ps::has_wire()) continue;
    const TrainResult result = run(name, {"distribute.workers=2", "distribute.strategy=" + name, "train.epochs=6",
                                          std::string("distribute.servers=") + (served ? "2" : "0")});
    EXPECT_GT(result.summary.steps, 0) << name;
    EXPECT_LT(result.summary.loss, 2.3) << name;
    EXPECT_EQ(result.summary.ranks.size(), 2U) << name;
    EXPECT_TRUE(result.saved) << name;
    const auto summary = json_in(runs_.path() / name / "summary.json");
    EXPECT_EQ(summary.at("ranks").size(), 2U) << name;
    EXPECT_FALSE(summary.at("ranks").at(0).at("counters").empty()) << name << " keeps its law counters";
  }
}

TEST_F(JobRanks, OfTwoGroupsKeepTogetherInsideAndMeetBetween) {
  const TrainResult result = run("groups", {"distribute={strategy: local_sgd, every: 2, topology: {worker_groups: 2, "
                                            "workers_per_group: 2}}",
                                            "train.epochs=6"});
  EXPECT_EQ(result.summary.ranks.size(), 4U);
  EXPECT_LT(result.summary.loss, 2.3);
}

TEST_F(JobRanks, TellWhatEachOfThemDid) {
  run("told", {"distribute.workers=2"});
  const auto summary = json_in(runs_.path() / "told" / "summary.json");
  for (const auto& rank : summary.at("ranks")) {
    EXPECT_GT(rank.at("samples_per_s").get<double>(), 0);
    EXPECT_GT(rank.at("sent").get<double>(), 0);
    EXPECT_GT(rank.at("received").get<double>(), 0);
    EXPECT_TRUE(rank.at("wait").contains("all_reduce"));
  }
  std::ifstream log(runs_.path() / "told" / kLogName);
  std::string line;
  int with_ranks = 0;
  while (std::getline(log, line)) {
    const auto event = nlohmann::json::parse(line);
    if (event.contains("ranks")) with_ranks += event.at("ranks").size() == 2 && event.contains("straggler") ? 1 : 0;
  }
  EXPECT_GT(with_ranks, 1);
  EXPECT_TRUE(read_run_log(runs_.path() / "told")) << "programs can still read it";
}

// One worker computes thirty times slower and is named: by the others' waits, or by the rows it leaves out if they do
// not wait.
// Label: waits
TEST_F(JobRanks, NameTheSlowOne) {
  int number = 0;
  for (const char* strategy : {"allreduce", "backup_workers", "hogwild"}) {
    const std::string distribute = std::string("distribute={workers: 3, slow: [1, 1, 30], strategy: ") + strategy + "}";
    const Summary summary =
        run("slow-" + std::to_string(++number), {distribute, "data.batch=6", "optimizer.lr=0.002"}).summary;
    EXPECT_EQ(nlohmann::json::parse(to_json(summary)).at("straggler"), 2) << to_json(summary);
  }
}

// Label: waits
TEST_F(JobRanks, SlowRanksLeaveOutRowsIfTheOthersDoNotWait) {
  int number = 0;
  for (const char* strategy : {"strategy: hogwild", "strategy: easgd, asynchronous: true, every: 4"}) {
    for (const int lag : {0, 2}) {
      const std::string distribute =
          std::string("distribute={workers: 3, slow: [1, 1, 30], ") + strategy + ", lag: " + std::to_string(lag) + "}";
      const Summary summary =
          run("lag-" + std::to_string(++number), {distribute, "data.batch=6", "optimizer.lr=0.002", "train.epochs=1"})
              .summary;
      const RankStats& slow = summary.ranks[2].stats;
      EXPECT_EQ(slow.samples + slow.left_out, 35) << "its part of 103 samples, in batches of 6";
      if (lag == 0) {
        EXPECT_EQ(slow.left_out, 0) << strategy;
      } else {
        EXPECT_GT(slow.left_out_share(), 0.2) << strategy;
      }
    }
  }
}

// Bytes sent equal bytes received, over all groups.
TEST_F(JobRanks, CountEveryByteOnBothSides) {
  int number = 0;
  const Summary dense = run("dense", {"distribute={workers: 3, strategy: allreduce}"}).summary;
  for (const char* strategy :
       {"strategy: backup_workers, backups: 0", "strategy: easgd, asynchronous: true, every: 1"}) {
    const Summary summary =
        run("counted-" + std::to_string(++number), {std::string("distribute={workers: 3, ") + strategy + "}"}).summary;
    std::uint64_t sent = 0, received = 0;
    for (const auto& rank : summary.ranks) {
      EXPECT_GT(rank.stats.sent, 0U) << strategy;
      EXPECT_GT(rank.stats.waited(), 0) << strategy;
      sent += rank.stats.sent;
      received += rank.stats.received;
    }
    // Rank 0 has already requested everyone's next note, and counts it as received.
    EXPECT_NEAR(static_cast<double>(sent), static_cast<double>(received), 0.01 * static_cast<double>(sent)) << strategy;
    // To rank 0 and back is 2 (P - 1) times the weights a step, as in an all-reduce. Evaluations show the centre.
    std::uint64_t reduced = 0;
    for (const auto& rank : dense.ranks) reduced += rank.stats.sent;
    EXPECT_NEAR(static_cast<double>(sent), static_cast<double>(reduced), 0.15 * static_cast<double>(sent)) << strategy;
  }
}

// The accuracy that a run ends with is that of the centre, which is the model it leaves.
TEST_F(JobRanks, ReportTheAccuracyOfTheFinalModel) {
  const TrainResult result =
      run("centre", {"distribute={workers: 2, strategy: easgd, every: 3, alpha: 0.05}", "train.epochs=3"});
  EXPECT_EQ(result.summary.steps, 12);
  std::ifstream log(runs_.path() / "centre" / kLogName);
  std::string line;
  std::vector<double> losses;
  while (std::getline(log, line)) {
    const auto event = nlohmann::json::parse(line);
    if (event.at("event") == "eval") losses.push_back(event.at("test_loss").get<double>());
  }
  ASSERT_GE(losses.size(), 2U);
  EXPECT_EQ(losses.back(), result.summary.metrics.at("test_loss"));
  EXPECT_EQ(losses.back(), losses[losses.size() - 2]) << "at the end of the epoch the centre was evaluated, too";
  const PreparedJob again = prepare_job(job("centre", {}), load_job_data(job("centre", {}).data));
  load_weights(*again.net, load_run_checkpoint(runs_.path() / "centre", "latest").value());
  std::vector<NamedTensor> weights;
  for (auto& [name, tensor] : again.net->named_parameters()) weights.push_back({name, tensor});
  EXPECT_EQ(weights_hash(weights), result.summary.weights_hash) << "the last checkpoint holds it too";
}

TEST_F(JobRanks, WriteOneTraceWithAllOfThem) {
  TrainOptions options;
  options.trace = runs_.path() / "trace.json";
  run(job("traced", {"distribute.workers=3", "train.epochs=4"}), options);
  std::map<int, std::pair<double, double>> times;
  const auto trace = json_in(options.trace);
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const auto begin = event.at("ts").get<double>();
    const auto [at, fresh] = times.try_emplace(event.at("pid").get<int>(), begin, begin);
    at->second.first = std::min(at->second.first, begin);
    at->second.second = std::max(at->second.second, begin);
  }
  ASSERT_EQ(times.size(), 3U);
  for (const auto& [rank, span] : times) {
    EXPECT_LT(span.first, times.at(0).second) << "rank " << rank << " is on the same time line";
    EXPECT_GT(span.second, times.at(0).first);
  }
}

TEST_F(JobRanks, EndWithTheErrorOfTheFirstThatFails) {
  Job job = this->job("diverges", {"distribute.workers=2", "optimizer.lr=1e6", "train.epochs=20"});
  try {
    run(job);
    FAIL() << "expected the loss to become infinite";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("expected a finite loss"), std::string::npos) << error.what();
  }
}

// Strategies whose rank 1 fails first, at length, and rank 0 later, in a word.
dist::StrategyMaker failing_in_turn(std::shared_ptr<std::atomic<bool>> first) {
  return [first](std::shared_ptr<Comm> comm) -> std::shared_ptr<dist::RankStrategy> {
    if (comm->rank() == 1) {
      first->store(true);
      fail("[test] expected this rank to be told as the first cause, got {}", std::string(200, 'x'));
    }
    while (!*first) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    fail("no");
  };
}

TEST_F(JobRanks, AreToldByTheFirstCauseHoweverLongItsWords) {
  Job job = this->job("in-turn", {"distribute.workers=2"});
  auto kind = *job.distribute.strategy.kind;
  const auto first = std::make_shared<std::atomic<bool>>(false);
  kind.make = [first](const void*) { return failing_in_turn(first); };
  job.distribute.strategy.kind = &kind;
  try {
    run(job);
    FAIL() << "expected two failures";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("[rank 1] [test] expected this rank to be told as the first"))
        << error.what();
  }
}

TEST_F(JobRanks, RefuseWhatTheirStrategyCannotDo) {
  EXPECT_THROW(run("average", {"distribute.workers=2", "distribute.strategy=local_sgd", "train.average={decay: 0.9}"}),
               Error);
  const auto refused = [&](const std::vector<std::string>& set) {
    try {
      job("refused", set);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refused({"distribute={workers: 2, strategy: local_sdg}"}).find("'local_sgd'"), std::string::npos);
  EXPECT_NE(refused({"distribute={workers: 2, strategy: local_sgd, shards: 3}"}).find("shards"), std::string::npos);
  EXPECT_NE(refused({"distribute={workers: 3, topology: {worker_groups: 2}}"}).find("3 workers"), std::string::npos);
  EXPECT_NE(refused({"distribute={workers: 2, topology: {server_groups: 1}}"}).find("servers"), std::string::npos);
}

// Control: without groups the same strategy trains (TrainByEveryStrategy).
TEST_F(JobRanks, EmsoBetweenGroupsIsRefusedInsteadOfTrainingAsAllReduce) {
  try {
    run("emso", {"distribute={strategy: emso, topology: {worker_groups: 2, workers_per_group: 2}}"});
    ADD_FAILURE() << "expected an error, got a run";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("[emso] expected workers that make its inner steps"), std::string::npos)
        << error.what();
  }
}

TEST_F(JobRanks, EveryPresetOfAClassicSystemTrains) {
  int presets = 0;
  for (const auto& file : fs::directory_iterator(fs::path(STARLING_SOURCE_FOLDER) / "examples" / "systems")) {
    const std::string name = file.path().stem().string();
    const std::vector<std::string> set = {"data.folder=" + data_.path().string(),
                                          "train.folder=" + (runs_.path() / name).string(),
                                          "train.steps=2",
                                          "data.batch=12",
                                          "train.export=false",
                                          "monitor.tensorboard=false"};
    const Job preset = read_job(ConfigNode::load(file.path(), set));
    EXPECT_EQ(run(preset).summary.steps, 2) << name;
    ++presets;
  }
  EXPECT_GE(presets, 15);
}

TEST(JobLayouts, OfPicturesSayThatTheirNormsAreGlobal) {
  const auto notes = [](const std::string& layers, const std::string& distribute) {
    const JobCheck check = check_job(read_job(ConfigNode::parse(
        "model: {layers: [{conv2d: {out: 4, padding: 1}}, " + layers + "{flatten: {}}, {linear: {out: 10}}]}\n" +
            "data: {name: synthetic, batch: 32}\ndistribute: {" + distribute + "}\n",
        "job.yaml")));
    std::string all;
    for (const auto& problem : check.problems) all += "problem: " + problem;
    for (const auto& note : check.notes) all += note;
    return all;
  };
  const std::string norm = "{batch_norm2d: {}}, ", told = "distribute.layout splits pictures";
  const std::string mesh = "mesh: {data: 2, model: 2}, layout: spatial";
  EXPECT_EQ(notes(norm, mesh).find(told), 0U) << notes(norm, mesh);
  EXPECT_EQ(notes(norm, mesh + ", batch_norm: global"), "");
  EXPECT_EQ(notes(norm, "mesh: {model: 2}, layout: spatial"), "") << "there are no others' rows";
  EXPECT_EQ(notes("", mesh), "");
}

// Workers along an axis that splits nothing would compute the same. Control: a network that has what the layout splits.
TEST(JobLayouts, ThatSplitNothingAreRefused) {
  const auto problems = [](const std::string& net, const std::string& layout) {
    std::string all;
    for (const auto& problem :
         check_job(read_job(ConfigNode::parse("model: {name: " + net + "}\ndata: {name: synthetic, batch: 8}\n" +
                                                  "distribute: {mesh: {model: 2}, layout: " + layout + "}\n",
                                              "job.yaml")))
             .problems)
      all += problem;
    return all;
  };
  const auto none = [](const std::string& said) {
    return "expected parameters, or convolutions or pools of pictures, that " + said +
           " splits along model: 2, got a network of which it leaves";
  };
  for (const std::string layout : {"spatial", "cots", "{input: {model: height}}"}) {
    const std::string told = problems("mlp", layout);
    EXPECT_NE(told.find(none(layout[0] == '{' ? "the layout" : layout)), std::string::npos) << told;
    EXPECT_EQ(told.find("job.yaml:3:"), 0U) << "its place: " << told;
    EXPECT_EQ(problems("lenet", layout), "") << layout;
  }
  EXPECT_NE(problems("resnet_small", "megatron").find(none("megatron")), std::string::npos);
}

}  // namespace
}  // namespace starling::train
