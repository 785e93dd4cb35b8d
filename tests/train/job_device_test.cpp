// Which device a rank trains on, and what a run says of it.
#include "starling/train/job/job_device.h"

#include <gtest/gtest.h>

#include "starling/base/config/config.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/train/job/job_error.h"

namespace starling::train {
namespace {

Job job_on(const std::string& device) {
  Job job;
  job.train.device = device;
  return job;
}

TEST(JobDevice, IsTheGpuOfTheRanksNumberAmongThoseOfItsHostModuloTheGpus) {
  const Job job = job_on("cuda");
  EXPECT_EQ(to_string(rank_device(job, 0, 4)), "cuda:0");
  EXPECT_EQ(to_string(rank_device(job, 3, 4)), "cuda:3");
  EXPECT_EQ(to_string(rank_device(job, 5, 4)), "cuda:1");
  EXPECT_EQ(to_string(rank_device(job, 7, 1)), "cuda:0");
}

TEST(JobDevice, IsTheNamedGpuForAllRanks) {
  for (int rank : {0, 1, 5}) EXPECT_EQ(to_string(rank_device(job_on("cuda:1"), rank, 2)), "cuda:1");
  for (int rank : {0, 1, 5}) EXPECT_EQ(rank_device(job_on("cpu"), rank, 2), kCpu);
}

TEST(JobDevice, IsRefusedWhereItIsNotThere) {
  EXPECT_THROW(rank_device(job_on("cuda"), 0, 0), JobError);
  EXPECT_THROW(rank_device(job_on("cuda:2"), 0, 2), JobError);
  try {
    rank_device(job_on("gpu"), 0, 1);
    FAIL() << "expected a refusal";
  } catch (const JobError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'cuda'?"), std::string::npos) << error.what();
  }
}

TEST(JobDevice, IsToldWithTheWayOfExchanges) {
  const std::shared_ptr<Comm> host = std::move(make_thread_comms(1).front());
  const dist::DeviceComms staged{std::make_shared<dist::GpuComm>(host, nullptr), "rank 1 is on another host"};
  EXPECT_EQ(device_note(job_on("cuda"), staged, 2, 1),
            "the 2 ranks of this host share cuda:0; they exchange through host memory (rank 1 is on another host)");
  EXPECT_EQ(device_note(job_on("cuda"), staged, 2, 2),
            "each rank has a GPU of its own; they exchange through host memory (rank 1 is on another host)");
  EXPECT_EQ(device_note(job_on("cuda"), staged, 5, 2),
            "the 5 ranks of this host share 2 GPUs, each that of its number modulo 2; they exchange through host "
            "memory (rank 1 is on another host)");
  const auto connect = [](std::unique_ptr<Comm> control) { return control; };
  const dist::DeviceComms direct{std::make_shared<dist::GpuComm>(host, connect), ""};
  EXPECT_EQ(device_note(job_on("cuda:1"), direct, 3, 2),
            "the 3 ranks of this host share cuda:1; they exchange in device memory (threads)");
}

TEST(JobDevice, OfABackendOfGpusIsNoCpu) {
  const auto read = [](const std::string& set) {
    const std::vector<std::string> all = {set, "distribute.backend=nccl"};
    return read_job(ConfigNode::parse("model: {name: mlp}\ndata: {name: synthetic}\n", "job.yaml", all));
  };
  EXPECT_EQ(read("train.device=cuda").distribute.backend.name, "nccl");
  try {
    read("train.device=cpu");
    FAIL() << "expected a refusal";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("ipc and nccl connect GPUs)"), std::string::npos) << error.what();
  }
}

TEST(JobDevice, IsKnownFromTheJob) {
  EXPECT_TRUE(trains_on_gpus(job_on("cuda")));
  EXPECT_TRUE(trains_on_gpus(job_on("cuda:3")));
  EXPECT_FALSE(trains_on_gpus(job_on("cpu")));
}

}  // namespace
}  // namespace starling::train
