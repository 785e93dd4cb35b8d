// Strategies over ranks that are processes: this program starts itself once a rank, with the rank's part in its
// environment. The bodies are those of thread ranks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "dist/strategy_testing.h"
#include "starling/dist/comm/shared/shared_comm.h"
#include "starling/dist/comm/transport/gloo_comm.h"
#include "starling/dist/launch/child.h"
#include "starling/dist/launch/store.h"
#include "starling/dist/strategy/hogwild.h"
#include "starling/dist/strategy/strategy_kinds.h"
#include "testing/temporary_folder.h"

namespace starling {
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

std::unique_ptr<Comm> comm_of(const std::string& backend, const std::string& folder, int rank) {
  const auto store = with_prefix(make_file_store(folder), backend);
  if (backend == "shared") return make_shared_comm(*store, rank, kWorld, {.arena_bytes = 64 << 20});
  return make_gloo_comm(store, {.rank = rank, .size = kWorld});
}

std::shared_ptr<RankStrategy> strategy_of(const std::string& text, std::shared_ptr<Comm> comm) {
  const ConfigNode job = ConfigNode::parse(text, "job");
  return strategy_kinds().choose(job).make()(std::move(comm));
}

// One rank. What it ends with goes to a file that the test reads.
TEST(StrategyProcess, Rank) {
  if (variable("STRATEGY_TEST_RANK").empty()) GTEST_SKIP() << "one rank of a world that the other tests start";
  const int rank = std::stoi(variable("STRATEGY_TEST_RANK"));
  const std::string folder = variable("STRATEGY_TEST_FOLDER");
  set_thread_rank(rank);
  const std::shared_ptr<Comm> comm = comm_of(variable("STRATEGY_TEST_BACKEND"), folder, rank);
  const auto data = random_batch(60, 9);
  {
    SmallTrainer trainer(strategy_of(variable("STRATEGY_TEST_JOB"), comm), {.lr = 0.1}, 3 + rank);
    const double before = trainer.loss(data.x, data.y).item();
    comm->barrier().wait();
    for (int s = 0; s < kSteps; ++s) trainer.step(data);
    trainer.strategy->settle();
    EXPECT_LT(trainer.loss(data.x, data.y).item(), 0.8 * before);
    comm->barrier().wait();
    if (dynamic_cast<Hogwild*>(trainer.strategy.get()) != nullptr) {
      // A number that rank 0 writes is there on the others at once: it is one memory.
      if (rank == 0) trainer.w.data<double>()[0] = 4711;
      comm->barrier().wait();
      EXPECT_EQ(trainer.w.data<double>()[0], 4711);
      EXPECT_EQ(counter(*trainer.strategy, "updates"), kSteps);
    }
    std::ofstream(folder + "/hash." + std::to_string(rank)) << trainer.hash();
    comm->barrier().wait();
  }
  comm->barrier().wait();
}

std::string said_by(const Child& child) {
  std::string text(4096, ' ');
  const ssize_t count = ::read(child.output.get(), text.data(), text.size());
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

class OverProcesses : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(OverProcesses, TrainsOneModel) {
  const auto& [backend, job] = GetParam();
  if (backend == "gloo" && !has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  const testing::TemporaryFolder folder;
  std::vector<Child> ranks;
  for (int rank = 0; rank < kWorld; ++rank) {
    ChildOptions options{.argv = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                  "--gtest_filter=StrategyProcess.Rank", "--gtest_brief=1"}};
    for (char** entry = environ; *entry != nullptr; ++entry) options.environment.emplace_back(*entry);
    options.environment.push_back("STRATEGY_TEST_RANK=" + std::to_string(rank));
    options.environment.push_back("STRATEGY_TEST_FOLDER=" + folder.path().string());
    options.environment.push_back("STRATEGY_TEST_BACKEND=" + backend);
    options.environment.push_back("STRATEGY_TEST_JOB=" + job);
    ranks.emplace_back(options);
  }
  const CommTime until = CommClock::now() + 60s;
  std::set<std::string> hashes;
  for (int rank = 0; rank < kWorld; ++rank) {
    Child& child = ranks[static_cast<std::size_t>(rank)];
    while (!child.exit() && CommClock::now() < until) {
      std::this_thread::sleep_for(5ms);
      child.reap();
    }
    ASSERT_TRUE(child.exit().has_value()) << "rank " << rank << " has not ended";
    EXPECT_TRUE(child.exit()->good()) << "rank " << rank << " " << describe(*child.exit()) << "\n" << said_by(child);
    std::string hash;
    std::ifstream(folder.path() / ("hash." + std::to_string(rank))) >> hash;
    EXPECT_FALSE(hash.empty());
    hashes.insert(hash);
  }
  EXPECT_EQ(hashes.size(), 1u);
}

std::string name_of(const ::testing::TestParamInfo<OverProcesses::ParamType>& info) {
  std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Strategies, OverProcesses,
                         ::testing::Combine(::testing::Values("shared", "gloo"),
                                            ::testing::Values("{name: allreduce}", "{name: local_sgd, every: 5}",
                                                              "{name: easgd, every: 3, asynchronous: true}",
                                                              "{name: backup_workers}", "{name: hogwild}")),
                         name_of);

}  // namespace
}  // namespace starling
