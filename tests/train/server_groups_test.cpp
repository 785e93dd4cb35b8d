// Jobs whose groups of workers are one worker each to parameter servers, all of them threads of this process.
#include <gtest/gtest.h>

#include <fstream>

#include "starling/base/error.h"
#include "starling/dist/ps/wire.h"
#include "starling/train/job/job_run.h"
#include "train/tiny_fashion.h"

namespace starling::train {
namespace {

class ServerGroups : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!dist::ps::has_wire()) GTEST_SKIP() << "built without ZeroMQ";
    testing::write_tiny_fashion(data_.path(), 103, 40);
  }

  Job job(const std::string& distribute, std::vector<std::string> set = {}) const {
    const std::string text =
        "model: {name: mlp, hidden: [16]}\ndata: {batch: 32}\noptimizer: {lr: 0.05, momentum: 0.9}\n"
        "train: {epochs: 2, seed: 7, export: false, resume: none}\nmonitor: {tensorboard: false}\ndistribute: "
        "{threads: 1, " +
        distribute + "}\n";
    set.push_back("data.folder=" + data_.path().string());
    set.push_back("train.folder=" + (runs_.path() / "run").string());
    return read_job(ConfigNode::parse(text, "job.yaml", set));
  }
  TrainResult run(const std::string& distribute, std::vector<std::string> set = {}) const {
    TrainOptions options;
    options.progress.mode = ProgressMode::off;
    return run_job(job(distribute, std::move(set)), options);
  }
  static std::string groups(int count, int members) {
    return "topology: {worker_groups: " + std::to_string(count) + ", workers_per_group: " + std::to_string(members) +
           ", server_groups: 1, servers_per_group: 2}";
  }
  static double counter(const TrainResult& result, const std::string& name) {
    return result.summary.ranks.at(0).counters.at(name).get<double>();
  }
  static double samples(const TrainResult& result) {
    double sum = 0;
    for (const auto& rank : result.summary.ranks) sum += static_cast<double>(rank.stats.samples);
    return sum;
  }

  testing::TestFolder data_{"groups-data"};
  testing::TestFolder runs_{"groups-runs"};
};

// Inside a group the step is that of servers who wait for all, wherever the mean is made.
TEST_F(ServerGroups, OneGroupEndsInTheBitsOfSyncServer) {
  const auto server = run("strategy: sync_server, workers: 2, servers: 2");
  const auto group = run("strategy: async, " + groups(1, 2));
  EXPECT_EQ(group.summary.weights_hash, server.summary.weights_hash);
  EXPECT_EQ(group.summary.steps, server.summary.steps);
  EXPECT_EQ(group.summary.ranks.size(), 1U) << "one worker to the leader";
  EXPECT_EQ(samples(group), 2 * 103);
  EXPECT_NE(run("strategy: async, workers: 2, servers: 2").summary.weights_hash, server.summary.weights_hash)
      << "control: without a group each gradient is a step";
}

TEST_F(ServerGroups, NothingIsStaleInsideAndSomethingBetween) {
  const auto one = run("strategy: async, " + groups(1, 3));
  EXPECT_EQ(counter(one, "servers.staleness.largest"), 0);
  const auto two = run("strategy: async, slow: [1, 1, 60, 60], " + groups(2, 2), {"train.epochs=4"});
  EXPECT_GT(counter(two, "servers.gap.largest"), 2) << "the fast group goes ahead";
  const auto bound = run("strategy: ssp, staleness: 1, slow: [1, 1, 60, 60], " + groups(2, 2), {"train.epochs=4"});
  EXPECT_EQ(counter(bound, "servers.gap.largest"), 1) << "the rule between groups is the servers'";
  EXPECT_EQ(samples(bound), 4 * 103);
}

// Law: of M workers that merge before the servers see them, a push in M arrives.
TEST_F(ServerGroups, ServersReceiveOnePushOfAGroup) {
  const auto received = [&](const std::string& how) {
    const auto result = run("strategy: sync_server, " + how, {"train.epochs=1"});
    EXPECT_EQ(samples(result), 103) << how;
    double bytes = 0;  // pushed; who asks for weights sends headers alone
    for (const auto& rank : result.summary.ranks) bytes += rank.counters.at("client.bytes_out").get<double>();
    EXPECT_GT(bytes, 0) << how;
    return std::pair(bytes, result.summary.loss);
  };
  const auto [apart, loss] = received("workers: 4, servers: 2");
  const auto [merged, same] = received(groups(2, 2));
  EXPECT_EQ(merged, apart / 2);
  EXPECT_EQ(received(groups(1, 4)).first, apart / 4);
  EXPECT_NEAR(same, loss, 1e-4) << "the mean of means, weighted by samples";
}

// A number is missing in a row of one member, whose gradients are none then: what the other has made is no step either.
TEST_F(ServerGroups, AStepOfWhichOneMemberHasNoFiniteGradientsIsNone) {
  std::ofstream table(data_.path() / "table.csv");
  table << "a,b,kind\n";
  for (int i = 0; i < 128; ++i) table << (i == 70 ? "" : std::to_string(i % 7)) << ',' << i % 5 << ',' << i % 2 << '\n';
  table.close();
  const auto train = [&](const std::string& missing) {
    const std::string text =
        "model: {layers: [{linear: {out: 4}}, {linear: {out: 2}}]}\n"
        "data: {name: csv, label: kind, missing: " +
        missing + ", batch: 16, shuffle: false, train: ['" + (data_.path() / "table.csv").string() +
        "']}\noptimizer: {lr: 0.01}\ntrain: {folder: '" + (runs_.path() / missing).string() +
        "', epochs: 1, export: false, non_finite: skip}\nmonitor: {tensorboard: false}\n"
        "distribute: {threads: 1, strategy: async, " +
        groups(1, 2) + "}\n";
    TrainOptions options;
    options.progress.mode = ProgressMode::off;
    return run_job(read_job(ConfigNode::parse(text, "job.yaml", {})), options);
  };
  const auto spoilt = train("nan"), whole = train("zero");
  EXPECT_EQ(spoilt.summary.steps, 8);
  EXPECT_EQ(spoilt.summary.skipped, 1);
  EXPECT_EQ(counter(spoilt, "pushes"), 7) << "a step is skipped where nothing is pushed, and nowhere else";
  EXPECT_EQ(whole.summary.skipped, 0) << "control";
  EXPECT_EQ(counter(whole, "pushes"), 8);
}

// MXNet's dist_sync and dist_async between groups: a step with the mean of all, or with each as it comes.
TEST_F(ServerGroups, OfKvstoreMakeOneStepTogetherOrOneEach) {
  const auto sync = run("strategy: kvstore, " + groups(2, 2));
  const auto async = run("strategy: kvstore, update: async, slow: [1, 1, 60, 60], " + groups(2, 2), {"train.epochs=4"});
  EXPECT_EQ(counter(sync, "servers.updates"), 2 * 4 * counter(sync, "servers.keys"));
  EXPECT_EQ(counter(sync, "servers.staleness.largest"), 0);
  EXPECT_EQ(counter(async, "servers.updates"), 4 * 4 * 2 * counter(async, "servers.keys"))
      << "each group's push is one";
  EXPECT_GT(counter(async, "servers.gap.largest"), 2) << "nothing bounds it";
  EXPECT_EQ(samples(async), 4 * 103);
}

TEST_F(ServerGroups, RefusesWhatGroupsCannotBe) {
  const auto refusal = [&](const std::string& distribute) {
    try {
      static_cast<void>(job(distribute));
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_NE(refusal("strategy: sandblaster, " + groups(2, 2)).find("workers_per_group: 1"), std::string::npos);
  EXPECT_EQ(refusal("strategy: sandblaster, " + groups(2, 1)), "");
  EXPECT_NE(refusal("strategy: async, topology: {worker_groups: 2, workers_per_group: 1, server_groups: 2, "
                    "servers_per_group: 1}")
                .find("one group of servers"),
            std::string::npos);
}

}  // namespace
}  // namespace starling::train
