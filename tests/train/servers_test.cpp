// Jobs whose workers share a model through parameter servers, all of them threads of this process.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "starling/base/error.h"
#include "starling/dist/ps/wire.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/job/job_check.h"
#include "starling/train/job/job_run.h"
#include "starling/train/job/prepared_job.h"
#include "starling/train/monitor/json_log.h"
#include "train/tiny_job.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;

class ServersJob : public TinyJobTest {
 protected:
  ServersJob() : TinyJobTest("servers", "{name: mlp, hidden: [16]}") {}

  void SetUp() override {
    if (!dist::ps::has_wire()) GTEST_SKIP() << "built without ZeroMQ";
    TinyJobTest::SetUp();
  }
  static double counter(const TrainResult& result, std::size_t rank, const std::string& name) {
    return result.summary.ranks.at(rank).counters.at(name).get<double>();
  }
  static double samples(const TrainResult& result) {
    double sum = 0;
    for (const auto& rank : result.summary.ranks) sum += static_cast<double>(rank.stats.samples);
    return sum;
  }
  std::string refusal(const std::vector<std::string>& set) const {
    try {
      static_cast<void>(job("refused", set));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
};

// The law of every strategy with one worker: the servers' optimizer is the job's own.
TEST_F(ServersJob, OneWorkerEndsInTheBitsOfASerialRunWhateverTheOptimizer) {
  for (const char* optimizer :
       {"{name: adagrad, lr: 0.02}", "{name: sgd, lr: 0.05, momentum: 0.9, weight_decay: 0.001}",
        "{name: adam, lr: 0.002}"}) {
    const std::string chosen = std::string("optimizer=") + optimizer;
    const std::string serial = run("serial", {chosen, "train.resume=none"}).summary.weights_hash;
    for (const char* strategy : {"downpour", "async", "ssp", "sync_server"}) {
      const auto served = run("served", {chosen, "train.resume=none", "distribute.servers=2",
                                         std::string("distribute.strategy=") + strategy});
      EXPECT_EQ(served.summary.weights_hash, serial) << strategy << " " << optimizer;
    }
    // Control: another rule on the worker's side of the wire ends elsewhere.
    const auto apart = run("apart", {chosen, "train.resume=none", "distribute.servers=2",
                                     "distribute.strategy=downpour", "distribute.n_push=2"});
    EXPECT_NE(apart.summary.weights_hash, serial);
  }
}

TEST_F(ServersJob, SyncServerLearnsWhatAllReduceDoes) {
  const auto reduced = run("reduced", {"distribute.workers=3"});
  const auto served = run("served", {"distribute={workers: 3, servers: 2, strategy: sync_server}"});
  EXPECT_EQ(served.summary.steps, reduced.summary.steps);
  EXPECT_NEAR(served.summary.loss, reduced.summary.loss, 1e-4);
  EXPECT_EQ(served.summary.metrics, reduced.summary.metrics);
  const auto async = run("async", {"distribute={workers: 3, servers: 2, strategy: async}"});
  EXPECT_GT(std::abs(async.summary.loss - reduced.summary.loss), 1e-4) << "each gradient is a step of its own";
}

// Rates by norms of whole layers, of which each server holds a piece: the sums differ from those of one process by
// rounding alone. One server holds whole tensors and makes the same bits.
TEST_F(ServersJob, LarsAndLambLearnWhatASerialRunDoesWhoeverHoldsThePieces) {
  for (const char* optimizer : {"{name: lars, lr: 0.5, trust: 0.02}", "{name: lamb, lr: 0.02}"}) {
    const std::string chosen = std::string("optimizer=") + optimizer;
    const auto serial = run("serial", {chosen, "train.resume=none"});
    const auto served = [&](const std::string& how) {
      return run("served", {chosen, "train.resume=none", "distribute={" + how + "}"});
    };
    EXPECT_EQ(served("servers: 1, strategy: async").summary.weights_hash, serial.summary.weights_hash) << optimizer;
    for (const char* how :
         {"servers: 2, strategy: async", "servers: 2, strategy: async, server_backups: true",
          "workers: 2, servers: 1, strategy: sync_server", "workers: 2, servers: 2, strategy: sync_server"})
      EXPECT_NEAR(served(how).summary.loss, serial.summary.loss, 2e-5) << optimizer << how;
    EXPECT_GT(std::abs(served("workers: 2, servers: 2, strategy: async").summary.loss - serial.summary.loss), 2e-4)
        << "control: two steps in place of one";
  }
}

TEST_F(ServersJob, NoSampleIsLostAndEverySumIsTheSame) {
  for (const char* strategy : {"async", "ssp", "downpour", "sync_server"}) {
    const auto result = run(
        strategy, {"distribute={workers: 3, servers: 2, strategy: " + std::string(strategy) + ", slow: [1, 1, 3]}"});
    EXPECT_EQ(result.summary.steps, 8) << strategy;
    EXPECT_EQ(samples(result), 2 * 103) << strategy;
    double pushes = 0;
    for (std::size_t rank = 0; rank < 3; ++rank) pushes += counter(result, rank, "pushes");
    EXPECT_EQ(pushes, 2 * 4 * 3) << strategy;
  }
}

TEST_F(ServersJob, StaleReadsAreBoundedAndReachTheBoundBesideASlowWorker) {
  const auto gap = [&](const std::string& name, const std::string& strategy) {
    return counter(run(name, {"distribute={workers: 3, servers: 2, slow: [1, 1, 120], strategy: " + strategy + "}",
                              "train.epochs=4"}),
                   0, "servers.gap.largest");
  };
  EXPECT_EQ(gap("one", "ssp, staleness: 1"), 1);
  EXPECT_EQ(gap("two", "ssp, staleness: 2"), 2);
  EXPECT_GT(gap("free", "async"), 2) << "control: nothing bounds it";
}

// A backup's worth of slowness: the servers make steps without the slow worker, whose gradients come too late.
// Label: waits
TEST_F(ServersJob, ABackupMakesStepsOfASyncServerWithoutASlowWorker) {
  const auto late = [&](const std::string& name, const std::string& how) {
    const auto result = run(name, {"distribute={workers: 3, servers: 2, strategy: sync_server, " + how + "}",
                                   "model={name: mlp, hidden: [256]}", "train.epochs=2"});
    EXPECT_EQ(result.summary.steps, 8) << how;
    EXPECT_EQ(counter(result, 2, "pushes"), 8) << how;
    return counter(result, 0, "servers.late") / counter(result, 0, "servers.keys");
  };
  EXPECT_GE(late("with", "backups: 1, slow: [1, 1, 1000]"), 2) << "of 8 pushes of each key, of which 6 are delayed";
  EXPECT_EQ(late("without", "slow: [1, 1, 1000]"), 0) << "control: everybody is waited for";
}

// Law: an epoch's steps / k pushes of a layer, whose gradients are added up meanwhile.
TEST_F(ServersJob, NexusPushesEachLayerAtItsOwnRhythm) {
  const std::string nexus = "distribute={servers: 2, strategy: nexus, layers: [{name: \"*.weight\", every: 4}]}";
  const auto result = run("nexus", {nexus, "data.batch=8", "train.epochs=1"});
  EXPECT_EQ(counter(result, 0, "steps"), 13);
  double weights = 0, biases = 0;
  for (const auto& [name, value] : result.summary.ranks.at(0).counters.items()) {
    if (!name.starts_with("pushes.")) continue;
    double& most = name.ends_with(".weight") ? weights : biases;
    most = std::max(most, value.get<double>());
    EXPECT_EQ(value.get<double>(), name.ends_with(".weight") ? 4 : 13) << name;
  }
  EXPECT_EQ(weights, 4);
  EXPECT_EQ(biases, 13);
  EXPECT_LT(result.summary.loss, 2.3);
  EXPECT_THROW(run("none", {"distribute={servers: 2, strategy: nexus, layers: [{name: \"conv*\", every: 4}]}"}), Error);
}

// Embeddings push the rows that a portion has read, each once; what is learned is what dense gradients learn.
TEST_F(ServersJob, RowsOfAnEmbeddingTravelAlone) {
  const fs::path letters = data_.path() / "letters.csv";
  std::ofstream file(letters);
  file << "text,kind\n";
  for (int i = 0; i < 64; ++i) file << (i % 2 == 0 ? "aa ab ac,a" : "ba bb bc,b") << "\n";
  file.close();
  const auto train = [&](bool sparse, const std::string& how) {
    const std::string text =
        "model: {layers: [{embedding: {vocabulary: 1000, width: 8, sparse: " + std::string(sparse ? "true" : "false") +
        "}}, {flatten: {}}, {linear: {out: 2}}]}\n"
        "data: {name: csv_text, text: text, label: kind, length: 3, batch: 16}\n"
        "optimizer: {name: adagrad, lr: 0.1}\ntrain: {epochs: 2, seed: 7, export: false, resume: none}\n"
        "monitor: {tensorboard: false}\ndistribute: " +
        how + "\n";
    const std::vector<std::string> set = {"data.train=[" + letters.string() + "]",
                                          "train.folder=" + (runs_.path() / (sparse ? "rows" : "dense")).string()};
    return run(read_job(ConfigNode::parse(text, "job.yaml", set)));
  };
  constexpr double kTable = 1000 * 8 * 4, kRest = (24 * 2 + 2) * 4,
                   kPortions = 8;  // bytes of a step; a portion's number
  for (const char* how :
       {"{threads: 1, servers: 2, strategy: async}", "{threads: 1, workers: 2, servers: 2, strategy: sync_server}"}) {
    const auto rows = train(true, how), dense = train(false, how);
    EXPECT_NEAR(rows.summary.loss, dense.summary.loss, 1e-5) << how;
    const double pushed = counter(rows, 0, "rows_pushed"), pushes = counter(rows, 0, "pushes");
    const double keys = counter(rows, 0, "servers.keys");
    EXPECT_GT(pushed, 0);
    EXPECT_LE(pushed, 7 * pushes) << "six words, and what pads";
    EXPECT_EQ(counter(rows, 0, "client.bytes_out"),
              pushed * (8 + 8 * 4) + pushes * (kRest + keys * kPortions) + counter(rows, 0, "rows_fetched") * 8)
        << how << ": rows with their numbers, both ways";
    // The other way: what the portion reads, each row once; the first fetch is of the whole table.
    const double fetched = counter(rows, 0, "rows_fetched"), fetches = counter(rows, 0, "fetches");
    EXPECT_GT(fetched, 0) << how;
    EXPECT_LE(fetched, 7 * fetches) << how;
    EXPECT_EQ(counter(rows, 0, "client.bytes_in"), kTable + fetched * 8 * 4 + fetches * kRest) << how;
    EXPECT_EQ(counter(dense, 0, "rows_fetched"), 0) << how;
    EXPECT_EQ(counter(dense, 0, "client.bytes_in"), fetches * (kTable + kRest)) << how << ", control";
    EXPECT_EQ(counter(dense, 0, "rows_pushed"), 0);
    EXPECT_EQ(counter(dense, 0, "client.bytes_out"), pushes * (kTable + kRest + keys * kPortions)) << how;
  }
}

// Scalars of the servers are written while they work.
TEST_F(ServersJob, TellsStalenessGapQueueAndBytesWhileItRuns) {
  const auto result = run("told", {"distribute={workers: 2, servers: 2, strategy: async}"});
  std::ifstream log(runs_.path() / "told" / kLogName);
  double in = 0, updates = 0;
  int records = 0;
  for (std::string line; std::getline(log, line);) {
    const auto event = nlohmann::json::parse(line);
    if (!event.contains("servers")) continue;
    ++records;
    const auto& now = event.at("servers");
    for (const char* what : {"staleness", "staleness_largest", "gap", "gap_largest", "queue", "queue_largest",
                             "wait_seconds", "megabytes_out", "queue_of/0", "queue_of/1"})
      EXPECT_TRUE(now.contains(what)) << what;
    in += now.at("megabytes_in").get<double>();
    updates += now.at("updates").get<double>();
    EXPECT_GE(now.at("staleness_largest").get<double>(), now.at("staleness").get<double>());
  }
  EXPECT_GE(records, 2) << "the first step and every second of 8, but for those that a save halts at";
  EXPECT_LE(records, 5);
  EXPECT_GT(updates, 0);
  EXPECT_LE(updates, counter(result, 0, "servers.updates"));
  EXPECT_LE(in * 1e6, counter(result, 0, "servers.bytes_in") + 1);
  EXPECT_GT(in, 0);
  const auto alone = run("alone", {"distribute.workers=2"});
  std::ifstream other(runs_.path() / "alone" / kLogName);
  for (std::string line; std::getline(other, line);) EXPECT_FALSE(nlohmann::json::parse(line).contains("servers"));
}

TEST_F(ServersJob, DownpourPushesAndFetchesWhenItSays) {
  // One epoch: the checkpoint at the end of another one would find the worker anywhere, and have it push what it keeps.
  const auto result = run("downpour", {"distribute={workers: 1, servers: 2, strategy: downpour, n_push: 3, n_fetch: 2}",
                                       "data.batch=8", "train.epochs=1"});
  EXPECT_EQ(counter(result, 0, "steps"), 13);
  EXPECT_EQ(counter(result, 0, "pushes"), 5) << "after 3, 6, 9, 12, and what is left in the end";
  EXPECT_EQ(counter(result, 0, "fetches"), 7) << "before every second step";
  EXPECT_LT(result.summary.loss, 2.3);
}

TEST_F(ServersJob, EvaluatesAndSavesWhatTheServersHoldAndGoesOnFromIt) {
  int number = 0;
  for (const char* strategy : {"async", "ssp", "sync_server", "downpour", "ssp, staleness: 0",
                               "ssp, staleness: 0, codec: one_bit", "sync_server, codec: one_bit"}) {
    const std::string distribute = "distribute={workers: 2, servers: 2, strategy: " + std::string(strategy) + "}";
    const std::string folder = "broken-" + std::to_string(number++);
    TrainOptions stopped;
    int asked = 0;
    stopped.stop = [&asked] { return asked++ >= 5; };
    const auto first = run(job(folder, {distribute, "train.checkpoint_every=2", "train.epochs=4"}), stopped);
    EXPECT_TRUE(first.stopped) << strategy;
    EXPECT_TRUE(first.saved) << strategy;
    const auto rest = run(folder, {distribute, "train.epochs=4"});
    EXPECT_EQ(rest.summary.steps, 16) << strategy;
    EXPECT_EQ(samples(first) + samples(rest), 4 * 103) << strategy;
  }
}

// One value of 1e25: a second moment of Adam, which the servers hold, becomes infinite, while loss, gradients and
// weights stay finite.
TEST_F(ServersJob, AStateOfTheServersThatIsNotFiniteEndsAllByTheNextCheckpoint) {
  const auto table = [&](const char* name, bool outlier) {
    std::ofstream file(data_.path() / name);
    file << "a,b,kind\n";
    for (int i = 0; i < 128; ++i)
      file << (outlier && i == 70 ? "1e25" : std::to_string(i % 7)) << ',' << i % 5 << ',' << i % 2 << '\n';
  };
  table("outlier.csv", true);
  table("fine.csv", false);
  const auto train = [&](const std::string& folder, const std::string& strategy, const std::string& file) {
    const std::string path = (data_.path() / file).string();
    const std::string text = fmt::format(
        "model: {{layers: [{{linear: {{out: 2}}}}]}}\n"
        "data: {{name: csv, label: kind, train: ['{0}'], test: ['{0}'], batch: 16, shuffle: false}}\n"
        "optimizer: {{name: adam, lr: 0.001}}\ntrain: {{folder: '{1}', epochs: 1, export: false, checkpoint_every: "
        "2}}\n"
        "distribute: {{workers: 2, servers: 2, threads: 1, strategy: {2}}}\nmonitor: {{tensorboard: false}}\n",
        path, (runs_.path() / folder).string(), strategy);
    return TinyJobTest::run(read_job(ConfigNode::parse(text, "job.yaml", {})));
  };
  for (const std::string strategy : {"async", "sync_server"}) {
    EXPECT_EQ(train("fine-" + strategy, strategy, "fine.csv").summary.steps, 8) << "control";
    try {
      train(strategy, strategy, "outlier.csv");
      ADD_FAILURE() << strategy << ": expected an end";
    } catch (const Error& error) {
      const std::string told = error.what();
      EXPECT_NE(told.find("expected finite weights and optimizer state, got an infinity or NaN in '"),
                std::string::npos)
          << told;
    }
    for (const std::int64_t step : CheckpointFolder(runs_.path() / strategy / "checkpoints").steps())
      EXPECT_LE(step, 4) << strategy << ": the value is of step 5";
  }
}

TEST_F(ServersJob, OneWorkerResumesToTheBitsOfAStraightRun) {
  const std::vector<std::string> set = {"optimizer={name: adam, lr: 0.002}", "distribute={servers: 2, strategy: async}",
                                        "train.epochs=3"};
  const std::string straight = run("straight", set).summary.weights_hash;
  TrainOptions stopped;
  int asked = 0;
  stopped.stop = [&asked] { return asked++ >= 5; };
  EXPECT_TRUE(run(job("broken", set), stopped).stopped);
  EXPECT_EQ(run("broken", set).summary.weights_hash, straight) << "the moments were saved with the weights";
}

TEST_F(ServersJob, RefusesWhatDoesNotAddUp) {
  const std::pair<std::vector<std::string>, std::string> wrong[] = {
      {{"distribute={workers: 2, strategy: ssp}"}, "servers of at least 1 with ssp"},
      {{"distribute={workers: 2, servers: 2}"}, "no servers with allreduce"},
      {{"distribute={workers: 2, servers: 2, strategy: ssp, staleness: -1}"}, "staleness"},
      {{"distribute={workers: 2, servers: 1, strategy: async, topology: {workers_per_group: 2, server_groups: 1, "
        "servers_per_group: 1}}"},
       "not in both"},
      {{"distribute={workers: 2, servers: 1, strategy: async}", "train.clip_norm=1"}, "no clipping"},
      {{"distribute={workers: 2, servers: 1, strategy: async}", "train.accumulate=2"}, "accumulate: 1"},
      {{"distribute={workers: 2, servers: 1, strategy: async}", "train.precision=f16"}, "f16"},
  };
  for (const auto& [set, says] : wrong) EXPECT_NE(refusal(set).find(says), std::string::npos) << refusal(set);
  EXPECT_EQ(refusal({"distribute={strategy: async, topology: {workers_per_group: 2, server_groups: 1, "
                     "servers_per_group: 2}}"}),
            "");
  // `servers` beside groups of workers is short for one group of so many.
  EXPECT_EQ(refusal({"distribute={strategy: async, servers: 2, topology: {worker_groups: 1, workers_per_group: 2}}"}),
            "");
}

TEST_F(ServersJob, EveryServerHasToHoldSomething) {
  const std::string text =
      "model: {name: mlp, hidden: [2]}\ndata: {name: synthetic, train_samples: 20, test_samples: 10, shape: [2], "
      "classes: 2, batch: 10}\ndistribute: {workers: 2, servers: 20, strategy: async, threads: 1}\n";
  const std::vector<std::string> set = {"train.folder=" + (runs_.path() / "many").string(), "train.epochs=1",
                                        "train.export=false"};
  const auto job = read_job(ConfigNode::parse(text, "job.yaml", set));
  const JobCheck found = check_job(job);
  ASSERT_EQ(found.problems.size(), 1U);
  EXPECT_NE(found.problems[0].find("20 servers and 12 pieces"), std::string::npos) << found.problems[0];
  EXPECT_THROW(run(job), Error);
  // Norms of whole tensors and backups: tensors stay whole, so that there are fewer pieces.
  const auto problems = [&](const std::string& optimizer) {
    std::vector<std::string> more = set;
    more.insert(more.end(), {"optimizer.name=" + optimizer, "distribute.servers=5", "distribute.server_backups=true"});
    return check_job(read_job(ConfigNode::parse(text, "job.yaml", more))).problems;
  };
  EXPECT_TRUE(problems("adam").empty());
  ASSERT_EQ(problems("lars").size(), 1U);
  EXPECT_NE(problems("lars")[0].find("5 servers and 4 pieces"), std::string::npos) << problems("lars")[0];
}

}  // namespace
}  // namespace starling::train
