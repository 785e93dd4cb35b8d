// Jobs with parameter servers through the program: threads, processes of `starling launch`, ranks of mpirun.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/launched.h"
#include "starling/dist/comm/transport/mpi_comm.h"
#include "starling/dist/ps/wire.h"
#include "starling/train/checkpoint/checkpoint.h"

namespace starling::testing {
namespace {

using namespace std::chrono_literals;

class CliServers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!dist::ps::has_wire()) GTEST_SKIP() << "built without ZeroMQ";
    write_tiny_fashion(folder_.path(), 103, 40);
    std::ofstream(folder_.path() / "job.yaml")
        << "model: {name: mlp, hidden: [16]}\ndata: {folder: '" << folder_.path().string()
        << "', batch: 32}\noptimizer: {name: adagrad, lr: 0.02}\ntrain: {epochs: 2, export: false}\n"
        << "distribute: {strategy: async, servers: 2, threads: 1}\nmonitor: {tensorboard: false}\n";
  }
  std::filesystem::path in(const std::string& name) const { return folder_.path() / name; }
  std::string told(const std::string& name, const std::string& more = "") const {
    return "'" + in("job.yaml").string() + "' --progress off --set train.folder='" + in(name).string() + "' " + more;
  }
  nlohmann::json summary(const std::string& name) const {
    return nlohmann::json::parse(file_text(in(name) / "summary.json"));
  }
  static std::int64_t samples(const nlohmann::json& summary) {
    std::int64_t sum = 0;
    for (const auto& rank : summary.at("ranks")) sum += rank.at("samples").get<std::int64_t>();
    return sum;
  }
  std::string hash_after(const std::string& line, const std::string& name) const {
    const Ran ran = run_shell_in(folder_.path(), line);
    EXPECT_EQ(ran.code, 0) << line << "\n" << ran.err;
    return ran.code == 0 ? summary(name).at("weights_hash").get<std::string>() : "";
  }

  // Kills a rank of a launch of three workers and two servers once the first epoch is evaluated.
  void kill_rank(const std::string& name, int rank, const std::string& says, const std::string& more,
                 int code = 0) const {
    const std::string steps = "--set train.epochs=40 --set distribute.heartbeat=0.2 ";
    Launched launched(folder_.path(), "-n 3 --servers 2 " + told(name, steps + more));
    const auto evaluated = [&] { return has(file_text(in(name) / "log.jsonl"), "\"eval\""); };
    ASSERT_TRUE(comes_true(evaluated, 60s)) << launched.log();
    send(launched.rank(rank), SIGKILL);
    EXPECT_EQ(launched.wait(120s), code) << launched.log();
    EXPECT_TRUE(has(launched.log(), says)) << launched.log();
    if (code != 0) return;
    const auto ended = summary(name);
    EXPECT_EQ(ended.at("steps"), 40 * 4);
    EXPECT_FALSE(ended.contains("interrupted"));
    // Law: every portion that was acknowledged is on every key, and none of them twice.
    const auto& counters = ended.at("ranks").at(0).at("counters");
    EXPECT_EQ(counters.at("servers.portions").get<double>(), 40 * 4 * 3 * counters.at("servers.keys").get<double>());
  }

  TestFolder folder_{"cli-servers"};
};

TEST_F(CliServers, AWorkersProgramIsExplainedAndTraced) {
  for (const char* command : {"train ", "launch -n 2 --servers 2 "}) {
    const auto trace = in("trace.json");
    std::filesystem::remove(trace);
    const Ran ran = run_starling(
        command + told("shown", "--resume none --set train.epochs=12 --explain --trace '" + trace.string() + "'") +
        (has(command, "launch") ? "" : " --set distribute.workers=2"));
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_TRUE(has(ran.out, "matmul") && has(ran.out, "compile")) << "what a worker runs: " << ran.out;
    const auto events = nlohmann::json::parse(file_text(trace)).at("traceEvents");
    const auto of_op = [](const auto& event) { return event.value("ph", "") == "X"; };
    EXPECT_GE(std::count_if(events.begin(), events.end(), of_op), 3) << events.dump().substr(0, 400);
  }
}

// Downpour with one worker that pushes and fetches at every step is serial Adagrad, wherever its servers are.
TEST_F(CliServers, OneWorkerEndsInTheBitsOfASerialRun) {
  const std::string serial = hash_after(
      "starling train " + told("serial", "--set distribute.strategy=allreduce --set distribute.servers=0"), "serial");
  const std::string set = "--set distribute.strategy=downpour";
  EXPECT_EQ(hash_after("starling train " + told("threads", set), "threads"), serial);
  EXPECT_EQ(hash_after("starling launch -n 1 --servers 2 " + told("processes", set), "processes"), serial);
  EXPECT_NE(
      hash_after("starling launch -n 1 --servers 1 " + told("apart", set + " --set distribute.n_push=2"), "apart"),
      serial);
  if (run_shell_in(folder_.path(), "mpirun --version").code != 0 || !dist::has_mpi()) return;
  const std::string mpirun = "mpirun --allow-run-as-root --oversubscribe --bind-to none -n 3 starling train ";
  EXPECT_EQ(hash_after(mpirun + told("mpi", set), "mpi"), serial) << "the last two ranks are servers";
}

// A worker that settles pushes all that it kept: the bits of a run do not depend on where servers are.
TEST_F(CliServers, CodedGradientsEndInTheSameBitsFromThreadsAndFromProcesses) {
  const std::string set = "--set train.epochs=1 --set distribute.codec=";
  const std::string threads = hash_after("starling train " + told("coded", set + "one_bit"), "coded");
  EXPECT_EQ(
      hash_after("starling launch -n 1 --servers 2 " + told("coded-processes", set + "one_bit"), "coded-processes"),
      threads);
  EXPECT_NE(hash_after("starling train " + told("uncoded", set + "none"), "uncoded"), threads);
  const auto counters = summary("coded-processes").at("ranks").at(0).at("counters");
  EXPECT_LT(10 * counters.at("coded_bytes").get<double>(), counters.at("decoded_bytes").get<double>());
}

// Servers that are processes learn each other's addresses after they listen; norms of whole layers go between them.
TEST_F(CliServers, LarsAndLambOverProcessesLearnWhatASerialRunDoes) {
  for (const char* optimizer : {"{name: lars, lr: 0.5, trust: 0.02}", "{name: lamb, lr: 0.02}"}) {
    const auto loss = [&](const std::string& line, const std::string& name, const std::string& set) {
      const std::string chosen = fmt::format("--set optimizer='{}' --set train.resume=none {}", optimizer, set);
      const std::string hash = hash_after(line + told(name, chosen), name);
      return hash.empty() ? -1.0 : summary(name).at("loss").get<double>();
    };
    const double serial =
        loss("starling train ", "serial", "--set distribute.strategy=allreduce --set distribute.servers=0");
    EXPECT_GT(serial, 0);
    EXPECT_EQ(loss("starling launch -n 1 --servers 1 ", "one", ""), serial);
    EXPECT_NEAR(loss("starling launch -n 1 --servers 2 ", "two", ""), serial, 2e-5);
  }
}

TEST_F(CliServers, ProcessesUseEverySampleOnceAnEpoch) {
  for (const char* strategy : {"ssp", "sync_server"}) {
    const std::string name = strategy;
    const Ran ran = run_shell_in(folder_.path(),
                                 "starling launch -n 3 --servers 2 " + told(name, "--set distribute.strategy=" + name));
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(samples(summary(name)), 2 * 103) << name;
    EXPECT_EQ(summary(name).at("steps"), 8) << name;
  }
}

// The bound on reads holds between processes, and is reached beside a slow one.
TEST_F(CliServers, StaleReadsOfProcessesAreBoundedAndReachTheBound) {
  const auto gap = [&](const std::string& name, const std::string& strategy) {
    const Ran ran = run_shell_in(
        folder_.path(),
        "starling launch -n 2 --servers 2 " +
            told(name,
                 "--set train.epochs=6 --set data.batch=16 --set distribute.slow=[1,100] --set distribute.strategy=" +
                     strategy));
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.code == 0 ? summary(name).at("ranks").at(0).at("counters").at("servers.gap.largest").get<double>() : -1;
  };
  EXPECT_EQ(gap("ssp", "ssp --set distribute.staleness=2"), 2);
  EXPECT_GT(gap("async", "async"), 2) << "control: nothing bounds it";
}

// The same over MPI's ranks: the bits of threads, as a worker alone is as far as it is.
TEST_F(CliServers, RanksOfMpirunTrainBySspWithACodecAndBySandblaster) {
  if (run_shell_in(folder_.path(), "mpirun --version").code != 0 || !dist::has_mpi()) GTEST_SKIP() << "no MPI";
  const std::string mpirun = "mpirun --allow-run-as-root --oversubscribe --bind-to none -n 3 starling train ";
  for (const char* how : {"ssp --set distribute.staleness=1 --set distribute.codec=one_bit", "sandblaster"}) {
    const std::string name = std::string(how).substr(0, 3);
    const std::string set = std::string("--set train.epochs=1 --set distribute.strategy=") + how;
    const std::string threads = hash_after("starling train " + told(name, set), name);
    EXPECT_EQ(hash_after(mpirun + told(name + "-mpi", set), name + "-mpi"), threads) << how;
    const auto counters = summary(name + "-mpi").at("ranks").at(0).at("counters");
    if (name == "ssp")
      EXPECT_LT(10 * counters.at("coded_bytes").get<double>(), counters.at("decoded_bytes").get<double>());
    else
      EXPECT_EQ(counters.at("procedure.bytes"), 0) << "the leader sends numbers alone";
  }
  EXPECT_NE(summary("ssp-mpi").at("weights_hash"), summary("san-mpi").at("weights_hash")) << "control";
}

TEST_F(CliServers, RolesThatDoNotAddUpAreRefused) {
  const Ran ran =
      run_shell_in(folder_.path(), "starling launch -n 3 --servers 2 " + told("wrong", "--set distribute.workers=2"));
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "expected 4 processes, 2 workers and 2 servers, got 5")) << ran.err;
}

// A worker that is killed is named, and the others make what it would have made; a server's backup takes its place.
TEST_F(CliServers, AKilledWorkerCostsNothingElse) { kill_rank("killed", 2, "worker 2, rank 2 (pid", ""); }
TEST_F(CliServers, AKilledWorkersPortionsThatItKeptBackAreMadeByOthers) {
  kill_rank("kept", 2, "worker 2, rank 2 (pid", "--set distribute.strategy=downpour --set distribute.n_push=5");
}
// Every portion of every evaluation is on every key once, though a worker is killed among them.
// Label: waits
TEST_F(CliServers, AKilledWorkersPortionsOfAnEvaluationAreMadeByOthers) {
  Launched launched(folder_.path(),
                    "-n 3 --servers 2 " + told("blasted",
                                               "--set train.epochs=8 --set distribute.heartbeat=0.2 --set "
                                               "distribute.strategy=sandblaster --set distribute.slow=[100,100,100]"));
  const auto evaluated = [&] { return has(file_text(in("blasted") / "log.jsonl"), "\"eval\""); };
  ASSERT_TRUE(comes_true(evaluated, 60s)) << launched.log();
  send(launched.rank(2), SIGKILL);
  EXPECT_EQ(launched.wait(120s), 0) << launched.log();
  EXPECT_TRUE(has(launched.log(), "worker 2, rank 2 (pid")) << launched.log();
  const auto ended = summary("blasted");
  EXPECT_EQ(ended.at("steps"), 8);
  const auto& counters = ended.at("ranks").at(0).at("counters");
  EXPECT_EQ(counters.at("servers.portions").get<double>(),
            counters.at("procedure.evaluations").get<double>() * 48 * counters.at("servers.keys").get<double>());
  EXPECT_EQ(counters.at("procedure.bytes"), 0);
}
// A group is one worker to leader and servers: with a member it loses all, and the other group makes its portions.
TEST_F(CliServers, AKilledMemberEndsItsGroupAndNothingElse) {
  const std::string topology = "{worker_groups: 2, workers_per_group: 2, server_groups: 1, servers_per_group: 2}";
  const std::string set = "--set distribute.servers=0 --set distribute.topology='" + topology +
                          "' --set distribute.heartbeat=0.2 --set train.epochs=20 --set distribute.slow=[20,20,20,20]";
  Launched launched(folder_.path(), "-n 4 " + told("member", set));
  const auto evaluated = [&] { return has(file_text(in("member") / "log.jsonl"), "\"eval\""); };
  ASSERT_TRUE(comes_true(evaluated, 60s)) << launched.log();
  send(launched.rank(3), SIGKILL);
  EXPECT_EQ(launched.wait(120s), 0) << launched.log();
  EXPECT_TRUE(has(launched.log(), "worker 3, rank 3 (pid")) << launched.log();
  EXPECT_TRUE(has(launched.log(), "group 1 is lost")) << launched.log();
  const auto ended = summary("member");
  EXPECT_EQ(ended.at("steps"), 20 * 4);
  const auto& counters = ended.at("ranks").at(0).at("counters");
  EXPECT_EQ(counters.at("servers.portions").get<double>(), 20 * 4 * 2 * counters.at("servers.keys").get<double>());
}
// Statistics of the first group are the model's until it is lost, with a member that is not the leader.
TEST_F(CliServers, RunningStatisticsGoOnWithTheGroupsThatAreLeft) {
  const std::string topology = "{worker_groups: 2, workers_per_group: 2, server_groups: 1, servers_per_group: 2}";
  const std::string set = "--set distribute.servers=0 --set distribute.topology='" + topology +
                          "' --set distribute.heartbeat=0.2 --set train.epochs=20 --set "
                          "distribute.slow=[20,20,20,20] --set 'model={layers: [{flatten: {}}, {linear: {out: 16}}, "
                          "{batch_norm1d: {}}, {linear: {out: 10}}]}'";
  Launched launched(folder_.path(), "-n 4 " + told("statistics", set));
  const auto evaluated = [&] { return has(file_text(in("statistics") / "log.jsonl"), "\"eval\""); };
  ASSERT_TRUE(comes_true(evaluated, 60s)) << launched.log();
  send(launched.rank(1), SIGKILL);
  EXPECT_EQ(launched.wait(120s), 0) << launched.log();
  EXPECT_TRUE(has(launched.log(), "group 0 is lost")) << launched.log();
  const CheckpointFolder folder(in("statistics") / "checkpoints");
  const auto steps = folder.steps();
  ASSERT_GE(steps.size(), 2U);
  const auto statistics = [&](std::int64_t step) {
    std::map<std::string, std::vector<double>> found;
    for (const auto& [name, tensor] : folder.load(step).value().tensors) {
      if (has(name, "running")) found[name] = tensor.to_vector();
    }
    return found;
  };
  const auto before = statistics(steps[steps.size() - 2]), after = statistics(steps.back());
  ASSERT_FALSE(after.empty());
  for (const auto& [name, values] : after) EXPECT_NE(values, before.at(name)) << name << " has stood still";
}
// The leader tells the reason; it would wait for a worker of which it has never heard. (The launcher ends
// with that worker's code, of a job that cannot be run.)
// Label: waits
TEST_F(CliServers, AWorkerThatCannotLoadItsDataIsLostWithTheReason) {
  std::filesystem::create_directory(in("other"));
  std::filesystem::copy_file(in("job.yaml"), in("other") / "job.yaml");
  const std::string job =
      "sh -c 'test $STARLING_RANK != 2 || cd other; exec \"$0\" train job.yaml --progress off "
      "--set data.folder=data --set train.folder=" +
      in("unread").string() + " --set train.epochs=4'";
  std::filesystem::create_directory(in("data"));
  for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
    if (file.is_regular_file() && file.path().extension() != ".yaml") std::filesystem::copy(file.path(), in("data"));
  }
  const Ran ran = run_shell_in(folder_.path(), "starling launch -n 5 -- " + job + " '" + program_path().string() + "'");
  EXPECT_TRUE(has(ran.out + ran.err, "worker 2 is lost: ")) << ran.out << ran.err;
  EXPECT_FALSE(has(ran.out + ran.err, "worker 2 is lost: it has ")) << ran.out << ran.err;
}
TEST_F(CliServers, ProcessesWithDifferentJobsAreRefusedWithTheFirstDifference) {
  const std::string job = "sh -c 'exec \"$0\" train " + in("job.yaml").string() +
                          " --progress off --set train.folder=" + in("differ").string() +
                          " --set train.seed=$STARLING_RANK'";
  const Ran ran = run_shell_in(folder_.path(), "starling launch -n 3 -- " + job + " '" + program_path().string() + "'");
  EXPECT_NE(ran.code, 0);
  EXPECT_TRUE(
      has(ran.out + ran.err, "expected the same job on all ranks, got train.seed = 0 on rank 0 and 1 on rank 1"))
      << ran.out << ran.err;
}
TEST_F(CliServers, GroupsOfProcessesEndInTheBitsOfGroupsOfThreads) {
  const std::string set =
      "--set distribute.servers=0 --set distribute.topology='{workers_per_group: 2, server_groups: 1, "
      "servers_per_group: 2}'";
  EXPECT_EQ(hash_after("starling launch -n 2 " + told("processes", set + " --set distribute.deadline=0"), "processes"),
            hash_after("starling train " + told("threads", set), "threads"));
}
// Label: waits
TEST_F(CliServers, AKilledServersBackupGoesOn) {
  kill_rank("replaced", 4, "server 1, rank 4 (pid", "--set distribute.server_backups=true");
}
// Label: waits
TEST_F(CliServers, ControlWithoutABackupAKilledServerEndsTheJobAndIsNamed) {
  kill_rank("ended", 4, "server 1, rank 4 (pid", "", 1);
}

}  // namespace
}  // namespace starling::testing
