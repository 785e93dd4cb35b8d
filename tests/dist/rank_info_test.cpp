#include "starling/dist/launch/rank_info.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "dist/comm_worlds.h"

namespace starling::dist {
namespace {

using Environment = std::map<std::string, std::string>;

Variables fake(Environment environment) {
  return [environment = std::move(environment)](const std::string& name) -> std::optional<std::string> {
    const auto entry = environment.find(name);
    return entry == environment.end() ? std::nullopt : std::optional(entry->second);
  };
}

struct Told {
  std::string name;
  Environment environment;
  RankInfo info;
};

class RankInfoTold : public ::testing::TestWithParam<Told> {};

TEST_P(RankInfoTold, IsFound) {
  const auto found = find_rank_info({}, fake(GetParam().environment));
  ASSERT_TRUE(found.ok()) << found.error();
  const RankInfo& expected = GetParam().info;
  EXPECT_EQ(found->rank, expected.rank);
  EXPECT_EQ(found->world, expected.world);
  EXPECT_EQ(found->local_rank, expected.local_rank);
  EXPECT_EQ(found->local_world, expected.local_world);
  EXPECT_EQ(found->address, expected.address);
  EXPECT_EQ(found->starter, expected.starter);
}

const std::vector<Told> kTold = {
    {"nobody", {}, {0, 1, 0, 1, "", "alone"}},
    {"starling",
     {{"STARLING_RANK", "2"}, {"STARLING_WORLD", "4"}, {"STARLING_ADDRESS", "127.0.0.1:4711"}},
     {2, 4, 0, 1, "127.0.0.1:4711", "starling"}},
    {"starling_with_locals",
     {{"STARLING_RANK", "3"},
      {"STARLING_WORLD", "4"},
      {"STARLING_LOCAL_RANK", "1"},
      {"STARLING_LOCAL_WORLD", "2"},
      {"STARLING_ADDRESS", "[::1]:4711"}},
     {3, 4, 1, 2, "[::1]:4711", "starling"}},
    {"starling_of_one", {{"STARLING_RANK", "0"}, {"STARLING_WORLD", "1"}}, {0, 1, 0, 1, "", "starling"}},
    {"open_mpi",
     {{"OMPI_COMM_WORLD_RANK", "5"},
      {"OMPI_COMM_WORLD_SIZE", "8"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
      {"SLURM_PROCID", "1"},
      {"SLURM_STEP_NUM_TASKS", "2"}},  // of mpirun's daemons, not of our ranks
     {5, 8, 1, 4, "", "open_mpi"}},
    {"open_mpi_with_an_address",
     {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"STARLING_ADDRESS", "head:99"}},
     {0, 2, 0, 1, "head:99", "open_mpi"}},
    {"ours_before_theirs",
     {{"STARLING_RANK", "1"},
      {"STARLING_WORLD", "2"},
      {"STARLING_ADDRESS", "a:1"},
      {"OMPI_COMM_WORLD_RANK", "5"},
      {"OMPI_COMM_WORLD_SIZE", "8"}},
     {1, 2, 0, 1, "a:1", "starling"}},
    {"mpich",
     {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
     {1, 2, 1, 2, "", "mpich"}},
    {"slurm",
     {{"SLURM_JOB_ID", "42"},
      {"SLURM_STEP_ID", "0"},
      {"SLURM_PROCID", "3"},
      {"SLURM_NTASKS", "4"},
      {"SLURM_LOCALID", "1"},
      {"SLURM_STEP_NUM_TASKS", "4"},
      {"SLURM_STEP_NODELIST", "node[03-04]"},
      {"STARLING_PORT", "7000"}},
     {3, 4, 1, 2, "node03:7000", "slurm"}},
    {"slurm_with_a_suffix_and_others",
     {{"SLURM_PROCID", "0"},
      {"SLURM_STEP_NUM_TASKS", "4"},
      {"SLURM_STEP_NODELIST", "rack[7,9]-ib,login"},
      {"STARLING_PORT", "7000"}},
     {0, 4, 0, 1, "rack7-ib:7000", "slurm"}},
    {"slurm_with_a_plain_list",
     {{"SLURM_PROCID", "0"},
      {"SLURM_STEP_NUM_TASKS", "4"},
      {"SLURM_STEP_NODELIST", "alpha,beta[1-2]"},
      {"STARLING_PORT", "7000"}},
     {0, 4, 0, 1, "alpha:7000", "slurm"}},
    {"slurm_that_speaks_as_mpich_does",
     {{"PMI_RANK", "1"},
      {"PMI_SIZE", "2"},
      {"SLURM_PROCID", "1"},
      {"SLURM_STEP_NUM_TASKS", "2"},
      {"SLURM_STEP_NODELIST", "alpha,beta"},
      {"STARLING_PORT", "7000"}},
     {1, 2, 0, 1, "alpha:7000", "slurm"}},
    {"mpich_whose_agents_slurm_started",
     {{"PMI_RANK", "1"},
      {"PMI_SIZE", "8"},
      {"SLURM_PROCID", "0"},
      {"SLURM_STEP_NUM_TASKS", "2"},
      {"SLURM_STEP_NODELIST", "alpha,beta"}},
     {1, 8, 0, 1, "", "mpich"}},
    {"slurm_on_one_host",
     {{"SLURM_PROCID", "1"},
      {"SLURM_STEP_NUM_TASKS", "2"},
      {"SLURM_STEP_NUM_NODES", "1"},
      {"SLURM_STEP_NODELIST", "alpha"},
      {"STARLING_PORT", "7000"}},
     {1, 2, 0, 1, "127.0.0.1:7000", "slurm"}},
    {"an_allocation_without_a_step",
     {{"SLURM_JOB_ID", "42"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "2"}},
     {0, 1, 0, 1, "", "alone"}},
    {"a_step_of_one",
     {{"SLURM_JOB_ID", "42"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
     {0, 1, 0, 1, "", "slurm"}},
    {"torchrun",
     {{"RANK", "6"},
      {"WORLD_SIZE", "8"},
      {"LOCAL_RANK", "2"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "29500"}},
     {6, 8, 2, 4, "10.0.0.1:29500", "torchrun"}},
    {"torchrun_with_its_agent_on_the_port",
     {{"RANK", "0"},
      {"WORLD_SIZE", "2"},
      {"MASTER_ADDR", "head"},
      {"MASTER_PORT", "29500"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
     {0, 2, 0, 1, "head:29501", "torchrun"}},
    {"kubernetes",
     {{"JOB_COMPLETION_INDEX", "2"},
      {"STARLING_WORLD", "3"},
      {"STARLING_SERVICE", "trainers"},
      {"HOSTNAME", "fashion-2-2"}},
     {2, 3, 0, 1, "fashion-2-0.trainers:29400", "kubernetes"}},
    {"kubernetes_with_an_address",
     {{"JOB_COMPLETION_INDEX", "2"}, {"STARLING_WORLD", "3"}, {"STARLING_ADDRESS", "head:5"}},
     {2, 3, 0, 1, "head:5", "kubernetes"}},
    {"kubernetes_alone", {{"JOB_COMPLETION_INDEX", "7"}, {"STARLING_WORLD", "1"}}, {0, 1, 0, 1, "", "kubernetes"}},
};

INSTANTIATE_TEST_SUITE_P(By, RankInfoTold, ::testing::ValuesIn(kTold),
                         [](const auto& info) { return info.param.name; });

struct Refused {
  std::string name;
  Environment environment;
  std::vector<std::string> says;
};

class RankInfoRefused : public ::testing::TestWithParam<Refused> {};

TEST_P(RankInfoRefused, NamesWhatIsWrong) {
  const auto found = find_rank_info({}, fake(GetParam().environment));
  ASSERT_FALSE(found.ok());
  for (const auto& part : GetParam().says) EXPECT_TRUE(contains(found.error(), part));
}

const std::vector<Refused> kRefused = {
    {"no_world", {{"STARLING_RANK", "0"}}, {"starling", "expected STARLING_WORLD beside STARLING_RANK"}},
    {"no_rank", {{"STARLING_WORLD", "2"}}, {"expected STARLING_RANK beside STARLING_WORLD"}},
    {"no_address", {{"STARLING_RANK", "0"}, {"STARLING_WORLD", "2"}}, {"expected STARLING_ADDRESS beside"}},
    {"open_mpi_without_a_size", {{"OMPI_COMM_WORLD_RANK", "0"}}, {"open_mpi", "expected OMPI_COMM_WORLD_SIZE beside"}},
    {"mpich_without_a_rank", {{"PMI_SIZE", "2"}}, {"mpich", "expected PMI_RANK beside PMI_SIZE"}},
    {"slurm_without_a_rank", {{"SLURM_STEP_NUM_TASKS", "2"}}, {"slurm", "expected SLURM_PROCID beside"}},
    {"slurm_without_hosts",
     {{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}},
     {"expected SLURM_STEP_NODELIST beside SLURM_STEP_NUM_TASKS, SLURM_PROCID"}},
    {"slurm_with_a_broken_list",
     {{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NODELIST", "node[1-2"}},
     {"SLURM_STEP_NODELIST", "'node[1-2'"}},
    {"torchrun_without_a_world", {{"RANK", "0"}}, {"torchrun", "expected WORLD_SIZE beside RANK"}},
    {"torchrun_without_a_port",
     {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "head"}},
     {"expected MASTER_PORT beside RANK, WORLD_SIZE, MASTER_ADDR"}},
    {"torchrun_with_a_nonsense_port",
     {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", "http"}},
     {"MASTER_PORT", "'http'"}},
    {"kubernetes_without_a_world", {{"JOB_COMPLETION_INDEX", "0"}}, {"kubernetes", "expected STARLING_WORLD beside"}},
    {"kubernetes_without_a_service",
     {{"JOB_COMPLETION_INDEX", "0"}, {"STARLING_WORLD", "2"}, {"HOSTNAME", "job-0"}},
     {"expected STARLING_SERVICE beside"}},
    {"kubernetes_with_another_host_name",
     {{"JOB_COMPLETION_INDEX", "0"}, {"STARLING_WORLD", "2"}, {"HOSTNAME", "pod"}, {"STARLING_SERVICE", "s"}},
     {"HOSTNAME", "'-0'", "'pod'"}},
    {"a_rank_that_is_no_number", {{"RANK", "two"}, {"WORLD_SIZE", "4"}}, {"in RANK", "'two'", "WORLD_SIZE is 4"}},
    {"a_rank_with_a_tail", {{"PMI_RANK", "1x"}, {"PMI_SIZE", "4"}}, {"from 0 to 3 in PMI_RANK", "'1x'"}},
    {"a_rank_beyond_the_world",
     {{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
     {"from 0 to 3 in OMPI_COMM_WORLD_RANK", "'4'"}},
    {"a_negative_rank", {{"SLURM_PROCID", "-1"}, {"SLURM_STEP_NUM_TASKS", "4"}}, {"SLURM_PROCID", "'-1'"}},
    {"an_empty_world", {{"STARLING_RANK", "0"}, {"STARLING_WORLD", ""}}, {"in STARLING_WORLD", "''"}},
    {"a_world_of_none", {{"STARLING_RANK", "0"}, {"STARLING_WORLD", "0"}}, {"in STARLING_WORLD", "'0'"}},
    {"a_huge_world", {{"STARLING_RANK", "0"}, {"STARLING_WORLD", "99999999999999999999"}}, {"in STARLING_WORLD"}},
    {"a_local_rank_beyond_the_host",
     {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
     {"from 0 to 1 in LOCAL_RANK", "'2'"}},
    {"an_address_without_a_port",
     {{"STARLING_RANK", "0"}, {"STARLING_WORLD", "2"}, {"STARLING_ADDRESS", "head"}},
     {"host:port", "'head'"}},
    {"an_address_with_a_nonsense_port",
     {{"STARLING_RANK", "0"}, {"STARLING_WORLD", "2"}, {"STARLING_ADDRESS", "head:70000"}},
     {"0 to 65535", "'head:70000'"}},
};

INSTANTIATE_TEST_SUITE_P(For, RankInfoRefused, ::testing::ValuesIn(kRefused),
                         [](const auto& info) { return info.param.name; });

TEST(ProcessFlags, ComeBeforeTheEnvironment) {
  const auto found =
      find_rank_info({.rank = 1, .world = 3, .address = "head:4"},
                     fake({{"STARLING_RANK", "0"}, {"STARLING_WORLD", "2"}, {"STARLING_ADDRESS", "a:1"}}));
  ASSERT_TRUE(found.ok()) << found.error();
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->world, 3);
  EXPECT_EQ(found->address, "head:4");
  EXPECT_EQ(found->starter, "flags");
}

TEST(ProcessFlags, AnAddressAloneReplacesTheToldOne) {
  const auto found =
      find_rank_info({.address = "head:4"},
                     fake({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "other"}, {"MASTER_PORT", "1"}}));
  ASSERT_TRUE(found.ok()) << found.error();
  EXPECT_EQ(found->address, "head:4");
  EXPECT_EQ(found->starter, "torchrun");
}

TEST(ProcessFlags, AreCheckedLikeVariables) {
  EXPECT_TRUE(contains(find_rank_info({.rank = 1}, fake({})).error(), "--rank and --world together"));
  EXPECT_TRUE(contains(find_rank_info({.rank = 2, .world = 2}, fake({})).error(), "--rank from 0 to 1"));
  EXPECT_TRUE(contains(find_rank_info({.rank = 0, .world = 0}, fake({})).error(), "--world from 1"));
  EXPECT_TRUE(contains(find_rank_info({.rank = 0, .world = 2}, fake({})).error(), "--address host:port"));
}

}  // namespace
}  // namespace starling::dist
