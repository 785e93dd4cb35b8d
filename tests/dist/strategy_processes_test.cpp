// Strategies over process ranks: this program starts itself once per rank, with the rank's task in its environment. The
// bodies are those of thread ranks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "dist/strategy_testing.h"
#include "starling/dist/comm/shared/shared_comm.h"
#include "starling/dist/comm/transport/gloo_comm.h"
#include "starling/dist/comm/transport/mpi_comm.h"
#include "starling/dist/launch/launcher/child.h"
#include "starling/dist/launch/store/store.h"
#include "starling/dist/strategy/hogwild.h"
#include "starling/dist/strategy/strategy_kinds.h"
#include "testing/temporary_folder.h"

namespace starling::dist {
namespace {

using namespace std::chrono_literals;
using testing::counter;
using testing::random_batch;
using testing::SmallTrainer;

constexpr int kWorld = 3;
constexpr int kSteps = 24;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Under mpirun the rank is MPI's.
std::unique_ptr<Comm> comm_of(const std::string& backend, const std::string& folder) {
  if (backend == "mpi") return make_mpi_comm();
  const auto store = with_prefix(make_file_store(folder), backend);
  const int rank = std::stoi(variable("STRATEGY_TEST_RANK"));
  if (backend == "shared") return make_shared_comm(*store, rank, kWorld, {.arena_bytes = 64 << 20});
  return make_gloo_comm(store, {.rank = rank, .size = kWorld});
}

std::shared_ptr<RankStrategy> strategy_of(const std::string& text, std::shared_ptr<Comm> comm) {
  const ConfigNode job = ConfigNode::parse(text, "job");
  return strategy_kinds().choose(job).make()(std::move(comm));
}

// Checks each strategy's guarantees by this rank's counters.
void expect_laws(const RankStrategy& strategy) {
  const std::string name = strategy.name();
  const auto is = [&](const char* kind) { return name.starts_with(kind); };
  if (is("allreduce")) {
    EXPECT_EQ(counter(strategy, "steps"), kSteps);
  } else if (is("local_sgd")) {
    EXPECT_EQ(counter(strategy, "syncs"), kSteps / 5 + 1);  // plus one to settle
    // In both directions. Small buffers: through shared memory each rank reads all others'; what else there is has an
    // algorithm of its own.
    constexpr double kEach = (5 * 2 + 2 + 1) * 8;  // weights and the number of samples
    const double average = counter(strategy, "averaged_bytes") / (kSteps / 5 + 1);
    if (strategy.comm().capabilities().backend == "shared") {
      EXPECT_EQ(average, 2 * (kWorld - 1) * kEach);
    } else {
      EXPECT_GE(average, 2 * kEach);  // of the leaves of a tree, which send their own and get the sum
      EXPECT_LE(average, 2 * 2 * kEach);
    }
  } else if (is("easgd")) {
    EXPECT_EQ(counter(strategy, "meetings"), kSteps / 3);
    if (strategy.rank() == 0) {
      EXPECT_EQ(counter(strategy, "pulls_on_centre"), kWorld * kSteps / 3);
    }
  } else if (is("backup_workers")) {
    if (strategy.rank() == 0) {
      EXPECT_EQ(counter(strategy, "closed"), kSteps);
      EXPECT_EQ(counter(strategy, "contributions"), (kWorld - 1) * kSteps);
    }
  } else if (is("hogwild")) {
    EXPECT_EQ(counter(strategy, "updates"), kSteps);
  } else {
    ADD_FAILURE() << "no law known of " << name;
  }
}

// A number written by rank 0 is visible to the others at once: shared memory.
void expect_one_memory(Comm& comm, SmallTrainer& trainer) {
  if (comm.rank() == 0) trainer.w.data<double>()[0] = 4711;
  comm.barrier().wait();
  EXPECT_EQ(trainer.w.data<double>()[0], 4711);
}

std::string train(const std::shared_ptr<Comm>& comm, const std::string& job) {
  const auto data = random_batch(60, 9);
  SmallTrainer trainer(strategy_of(job, comm), {.lr = 0.1}, 3 + comm->rank());
  const double before = trainer.loss(data.x, data.y).item();
  comm->barrier().wait();
  for (int s = 0; s < kSteps; ++s) trainer.step(data);
  trainer.strategy->settle();
  EXPECT_LT(trainer.loss(data.x, data.y).item(), 0.8 * before);
  comm->barrier().wait();
  expect_laws(*trainer.strategy);
  if (dynamic_cast<Hogwild*>(trainer.strategy.get()) != nullptr) expect_one_memory(*comm, trainer);
  return trainer.hash();
}

// Body of one rank, which writes its result to a file for the test.
TEST(StrategyProcess, Rank) {
  const std::string folder = variable("STRATEGY_TEST_FOLDER");
  if (folder.empty()) GTEST_SKIP() << "one rank of a world that the other tests start";
  const std::shared_ptr<Comm> comm = comm_of(variable("STRATEGY_TEST_BACKEND"), folder);
  set_thread_rank(comm->rank());
  std::ofstream(folder + "/hash." + std::to_string(comm->rank())) << train(comm, variable("STRATEGY_TEST_JOB"));
  comm->barrier().wait();
}

std::string said_by(const Child& child) {
  std::string text(4096, ' ');
  const ssize_t count = ::read(child.output.get(), text.data(), text.size());
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

class OverProcesses : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

std::vector<Child> start_world(const std::string& backend, const std::string& job, const std::string& folder) {
  ChildOptions options;
  for (char** entry = environ; *entry != nullptr; ++entry) options.environment.emplace_back(*entry);
  options.environment.push_back("STRATEGY_TEST_FOLDER=" + folder);
  options.environment.push_back("STRATEGY_TEST_BACKEND=" + backend);
  options.environment.push_back("STRATEGY_TEST_JOB=" + job);
  const std::vector<std::string> self{std::filesystem::read_symlink("/proc/self/exe").string(),
                                      "--gtest_filter=StrategyProcess.Rank", "--gtest_brief=1"};
  std::vector<Child> children;
  if (backend == "mpi") {
    options.argv = {"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "3"};
    options.argv.insert(options.argv.end(), self.begin(), self.end());
    children.emplace_back(options);
    return children;
  }
  options.argv = self;
  for (int rank = 0; rank < kWorld; ++rank) {
    options.environment.push_back("STRATEGY_TEST_RANK=" + std::to_string(rank));
    children.emplace_back(options);
    options.environment.pop_back();
  }
  return children;
}

// Runs a world; `hash` is that of the final weights of all ranks.
void run_world(const std::string& backend, const std::string& job, std::string& hash) {
  const testing::TemporaryFolder folder;
  std::vector<Child> children = start_world(backend, job, folder.path().string());
  const CommTime until = CommClock::now() + 60s;
  for (Child& child : children) {
    while (!child.exit() && CommClock::now() < until) {
      std::this_thread::sleep_for(5ms);
      child.reap();
    }
    ASSERT_TRUE(child.exit().has_value()) << "not ended: " << said_by(child);
    EXPECT_TRUE(child.exit()->good()) << describe(*child.exit()) << "\n" << said_by(child);
  }
  std::set<std::string> hashes;
  for (int rank = 0; rank < kWorld; ++rank)
    hashes.insert(testing::read_text(folder / ("hash." + std::to_string(rank))));
  ASSERT_EQ(hashes.size(), 1u);
  hash = *hashes.begin();
  EXPECT_FALSE(hash.empty());
}

// Leaks of Open MPI itself are ignored.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

bool there(const std::string& backend) {
  if (backend == "gloo") return has_gloo();
  if (backend != "mpi") return true;
  if (kSanitized) return false;
  return has_mpi() && std::system("command -v mpirun > /dev/null 2>&1") == 0;
}

TEST_P(OverProcesses, KeepsTheStrategysGuaranteesAndTrainsOneModel) {
  const auto& [backend, job] = GetParam();
  if (!there(backend)) GTEST_SKIP() << "no " << backend << " here";
  std::string hash;
  run_world(backend, job, hash);
}

// One rank alone, threads and processes over every backend: the same bits.
TEST(OverProcessesDeterministic, EveryBackendEndsWithTheHashOfOneRank) {
  const std::string job = "{name: allreduce, deterministic: true}";
  std::string alone;
  run_ranks(make_thread_comms(1), [&](Comm& comm) { alone = train(testing::borrowed(comm), job); });
  run_ranks(make_thread_comms(kWorld),
            [&](Comm& comm) { EXPECT_EQ(train(testing::borrowed(comm), job), alone) << "threads"; });
  for (const char* backend : {"shared", "gloo", "mpi"}) {
    if (!there(backend)) continue;
    std::string hash;
    run_world(backend, job, hash);
    EXPECT_EQ(hash, alone) << backend;
  }
}

std::string name_of(const ::testing::TestParamInfo<OverProcesses::ParamType>& info) {
  std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Strategies, OverProcesses,
                         ::testing::Combine(::testing::Values("shared", "gloo", "mpi"),
                                            ::testing::Values("{name: allreduce}", "{name: local_sgd, every: 5}",
                                                              "{name: easgd, every: 3, asynchronous: true}",
                                                              "{name: backup_workers}", "{name: hogwild, lag: 0}")),
                         name_of);

}  // namespace
}  // namespace starling::dist
