// Which way ranks on GPUs exchange.
#include "starling/dist/comm/gpu/gpu_exchange.h"

#include "dist/comm_worlds.h"
#include "testing/temporary_folder.h"

namespace starling::dist {
namespace {

using testing::error_of;

// Ranks on hosts of one letter each, with the number of their GPU: "a0 a1 b0".
std::vector<GpuPlace> places(std::string_view text) {
  std::vector<GpuPlace> made;
  for (std::size_t i = 0; i + 1 < text.size(); i += 3) {
    made.push_back({.device = text[i + 1] - '0'});
    made.back().host[0] = text[i];
  }
  return made;
}

TEST(GpuExchange, IsNcclWhereEveryRankHasAGpuOfItsOwn) {
  EXPECT_EQ(choose_gpu_exchange("auto", places("a0 a1"), true), GpuExchange::nccl);
  EXPECT_EQ(choose_gpu_exchange("auto", places("a0 b0"), true), GpuExchange::nccl);
  EXPECT_EQ(choose_gpu_exchange("auto", places("a0 a0"), true), GpuExchange::ipc);
  EXPECT_EQ(choose_gpu_exchange("auto", places("a0 a1 a0 a1"), true), GpuExchange::ipc);
  EXPECT_EQ(choose_gpu_exchange("auto", places("a0 a1"), false), GpuExchange::ipc);
}

TEST(GpuExchange, GoesByTheNamedBackend) {
  EXPECT_EQ(choose_gpu_exchange("nccl", places("a0 a1"), true), GpuExchange::nccl);
  EXPECT_EQ(choose_gpu_exchange("ipc", places("a0 a1"), true), GpuExchange::ipc);
  for (const char* host : {"shared", "gloo", "mpi"})
    EXPECT_EQ(choose_gpu_exchange(host, places("a0 a1"), true), GpuExchange::staged);
}

TEST(GpuExchange, RefusesNcclForRanksThatShareAGpuAndInBuildsWithout) {
  EXPECT_TRUE(contains(error_of([] { choose_gpu_exchange("nccl", places("a0 b0 b0"), true); }),
                       "got ranks 1 and 2 on cuda:0 of b (auto and ipc let ranks share one)"));
  EXPECT_TRUE(
      contains(error_of([] { choose_gpu_exchange("nccl", places("a0 a1"), false); }), "expected a build with NCCL"));
}

TEST(GpuExchange, KnowsTheGpusOfAllRanks) {
  run_ranks(make_thread_comms(3), [](Comm& comm) {
    const auto all = gather_gpu_places(comm, comm.rank() / 2);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0], all[1]);
    EXPECT_EQ(all[2].device, 1);
    EXPECT_STRNE(all[0].host.data(), "");
  });
}

}  // namespace
}  // namespace starling::dist
