// Ranks that share a GPU exchange its memory: threads by address, processes through CUDA IPC.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "cuda/cuda_testing.h"
#include "cuda/mirrored_comm.h"
#include "dist/comm_conformance.h"
#include "dist/comm_worlds.h"
#include "starling/dist/comm/gpu/device_comms.h"
#include "starling/dist/comm/gpu/ipc_comm.h"
#include "starling/dist/comm/shared/shared_comm.h"
#include "starling/dist/launch/store/store.h"
#include "train/tiny_job.h"

namespace starling::testing {
namespace {

std::unique_ptr<Comm> on_gpu(std::unique_ptr<Comm> host) {
  return std::make_unique<MirroredComm>(dist::make_ipc_comm(dist::make_cuda_reach(0), std::move(host)), kGpu);
}

class CudaRankThreads : public OnGpu, public ::testing::WithParamInterface<int> {};

TEST_P(CudaRankThreads, ConformInDeviceMemory) {
  for (const conformance::Check& check : conformance::checks()) {
    SCOPED_TRACE(check.name);
    run_ranks(dist::wrap(make_thread_comms(GetParam()), on_gpu), check.run);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, CudaRankThreads, ::testing::Values(1, 2, 4));

// A rank of a world of processes, if this program was started as one by the test below.
TEST(CudaRankChild, Conforms) {
  const char* folder = std::getenv("STARLING_TEST_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "no child of CudaRankProcesses";
  const int rank = std::atoi(std::getenv("STARLING_TEST_RANK")), world = std::atoi(std::getenv("STARLING_TEST_WORLD"));
  const auto store = make_file_store(folder);
  const std::shared_ptr<Comm> host = make_shared_comm(*store, rank, world);
  const dist::DeviceComms devices = dist::connect_devices(host, dist::make_cuda_reach(0));
  ASSERT_EQ(devices.why_not, "");
  const auto comm = on_gpu(host->split(0, rank));
  for (const conformance::Check& check : conformance::checks()) {
    SCOPED_TRACE(check.name);
    check.run(*comm);
  }
  comm->barrier().wait();
}

// Every rank is this program, started anew: a process that has used a GPU cannot be forked.
class CudaRankProcesses : public OnGpu, public ::testing::WithParamInterface<int> {};

TEST_P(CudaRankProcesses, ConformThroughCudaIpc) {
  const int world = GetParam();
  const TestFolder folder("cuda-ranks-" + std::to_string(world));
  std::vector<pid_t> children;
  const auto output = [&](int rank) { return (folder.path() / ("rank" + std::to_string(rank))).string(); };
  for (int rank = 0; rank < world; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(100);
      ::setenv("STARLING_TEST_FOLDER", (folder.path() / "store").c_str(), 1);
      ::setenv("STARLING_TEST_RANK", std::to_string(rank).c_str(), 1);
      ::setenv("STARLING_TEST_WORLD", std::to_string(world).c_str(), 1);
      const int file = ::open(output(rank).c_str(), O_WRONLY | O_CREAT, 0600);
      ::dup2(file, 1);
      ::dup2(file, 2);
      ::execl("/proc/self/exe", "test_cuda", "--gtest_filter=CudaRankChild.*", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    children.push_back(child);
  }
  for (int rank = 0; rank < world; ++rank) {
    int status = 0;
    ::waitpid(children[static_cast<std::size_t>(rank)], &status, 0);
    std::ifstream said(output(rank));
    const std::string text{std::istreambuf_iterator<char>(said), {}};
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << rank << ":\n" << text;
    EXPECT_EQ(text.find("SKIPPED"), std::string::npos) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, CudaRankProcesses, ::testing::Values(1, 2, 4));

// Jobs whose workers are threads that share the GPU.
class CudaRankJobs : public train::TinyJobTest {
 protected:
  CudaRankJobs() : TinyJobTest("cuda-ranks", "{name: lenet}") {}
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
    train::TinyJobTest::SetUp();
  }
  Summary on_gpu(const std::string& folder, std::vector<std::string> set) const {
    set.emplace_back("train.device=cuda");
    set.emplace_back("distribute.hash_every=1");
    return run(folder, std::move(set)).summary;
  }
};

TEST_F(CudaRankJobs, LearnWhatOneLearnsWithTheSameBitsWhicheverWayTheyExchange) {
  const Summary one = on_gpu("one", {});
  for (const char* level : {"distribute.zero=0", "distribute.zero=1", "distribute.zero=2", "distribute.zero=3"}) {
    SCOPED_TRACE(level);
    const auto of_two = [&](const std::string& backend) {
      return on_gpu(backend + level, {"distribute.workers=2", "distribute.backend=" + backend, level});
    };
    const Summary direct = of_two("ipc"), staged = of_two("shared");
    EXPECT_EQ(direct.steps, one.steps);
    EXPECT_NEAR(direct.loss, one.loss, 1e-3 * std::max(1.0, one.loss));
    EXPECT_EQ(direct.weights_hash, staged.weights_hash);
    EXPECT_EQ(direct.ranks.at(1).counters.at("staged_bytes"), 0);
    EXPECT_GT(staged.ranks.at(1).counters.at("staged_bytes").get<double>(), 0);
  }
}

}  // namespace
}  // namespace starling::testing
