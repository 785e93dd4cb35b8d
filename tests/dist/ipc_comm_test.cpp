// Exchange in device memory, over a reach of the host: the conformance suite, what is counted, and what goes wrong.
#include "starling/dist/comm/gpu/ipc_comm.h"

#include <mutex>

#include "dist/comm_conformance.h"
#include "dist/comm_worlds.h"
#include "dist/fake_reach.h"
#include "starling/dist/comm/gpu/device_comms.h"

namespace starling::dist {
namespace {

// Communicators for the memory of devices: of ranks that are processes, or threads of one.
Comms ipc_comms(int world, bool processes) {
  return wrap(make_thread_comms(world), [&](std::unique_ptr<Comm> host) {
    const auto reach = std::make_shared<FakeReach>(processes ? host->rank() : 0);
    return make_ipc_comm(reach, std::move(host));
  });
}

Backend ipc_backend() {
  return {"ipc", [](int world) { return ipc_comms(world, true); }};
}
Backend addresses_backend() {
  return {"addresses", [](int world) { return ipc_comms(world, false); }};
}

class IpcConformance : public ::testing::TestWithParam<std::tuple<Backend, int, conformance::Check>> {};

TEST_P(IpcConformance, Holds) {
  const auto& [backend, world, check] = GetParam();
  run_ranks(backend.make(world), check.run);
}

INSTANTIATE_TEST_SUITE_P(Backends, IpcConformance,
                         ::testing::Combine(::testing::Values(ipc_backend(), addresses_backend()),
                                            ::testing::Values(1, 2, 3, 4), ::testing::ValuesIn(conformance::checks())),
                         [](const auto& info) {
                           return std::get<2>(info.param).name + "_" + std::get<0>(info.param).name + "_P" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(IpcComm, CountsWhatEachRankReadsOfTheOthers) {
  run_ranks(ipc_comms(2, true), [](Comm& comm) {
    std::vector<float> data(100, 1);
    comm.all_reduce(data.data(), data.data(), 100, DType::f32, ReduceOp::sum).wait();
    EXPECT_EQ(data, std::vector<float>(100, 2));
    const OpCounters c = comm.journal().counters(CommOp::all_reduce);
    EXPECT_EQ(c.bytes_received, 400U);  // half of the terms, then half of the sums
    EXPECT_EQ(c.bytes_sent, 400U);
  });
}

TEST(IpcComm, OpensAnAllocationOnceAndWaitsForItsProducersBeforeItTellsOthers) {
  std::vector<std::shared_ptr<FakeReach>> reaches{std::make_shared<FakeReach>(0), std::make_shared<FakeReach>(1)};
  alignas(4096) static std::array<std::array<float, 1024>, 2> memory;  // a page each
  {
    const Comms comms = wrap(make_thread_comms(2), [&](std::unique_ptr<Comm> host) {
      const auto& reach = reaches[static_cast<std::size_t>(host->rank())];
      return make_ipc_comm(reach, std::move(host));
    });
    run_ranks(comms, [](Comm& comm) {
      float* data = memory[static_cast<std::size_t>(comm.rank())].data();
      for (int i = 0; i < 5; ++i) comm.all_reduce(data + i, data + i, 3, DType::f32, ReduceOp::max).wait();
    });
    for (const auto& reach : reaches) EXPECT_EQ(reach->opened, 1);
    for (const auto& reach : reaches) EXPECT_EQ(reach->waits, 5);
    for (const auto& reach : reaches) EXPECT_EQ(reach->closed, 0);
  }
  for (const auto& reach : reaches) EXPECT_EQ(reach->closed, 1);
}

TEST(IpcComm, NamesBothSidesOfCallsThatDisagree) {
  const auto errors = errors_of(ipc_comms(2, true), [](Comm& comm) {
    std::vector<float> data(10);
    const std::int64_t count = comm.rank() == 0 ? 10 : 8;
    comm.all_reduce(data.data(), data.data(), count, DType::f32, ReduceOp::sum, {.name = "grad/w1"}).wait();
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, "all_reduce(sum) f32 x 10 'grad/w1'"));
    EXPECT_TRUE(contains(error, "all_reduce(sum) f32 x 8 'grad/w1'"));
  }
}

TEST(IpcComm, EndsForAllWhenOneAborts) {
  const auto errors = errors_of(ipc_comms(3, true), [](Comm& comm) {
    if (comm.rank() == 1) {
      comm.abort("its data are gone");
      return;
    }
    float word = 1;
    comm.all_reduce(&word, &word, 1, DType::f32, ReduceOp::sum).wait();
  });
  EXPECT_TRUE(contains(errors[0], "its data are gone"));
  EXPECT_TRUE(contains(errors[2], "its data are gone"));
}

TEST(IpcComm, NamesWhoIsMissingAtTheDeadline) {
  const auto errors = errors_of(ipc_comms(2, true), [](Comm& comm) {
    float word = 1;
    if (comm.rank() == 0)
      comm.all_reduce(&word, &word, 1, DType::f32, ReduceOp::sum, {.deadline = std::chrono::milliseconds(100)}).wait();
    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  EXPECT_TRUE(contains(errors[0], "rank 1"));
}

TEST(IpcComm, RefusesAMessageOfAnotherLength) {
  const auto errors = errors_of(ipc_comms(2, true), [](Comm& comm) {
    std::vector<float> data(10);
    if (comm.rank() == 0) comm.send(data.data(), 10, DType::f32, 1).wait();
    if (comm.rank() == 1) comm.recv(data.data(), 4, DType::f32, 0).wait();
  });
  EXPECT_FALSE(errors[1].empty());
}

// Ranks of which `reach` says what they have.
std::vector<DeviceComms> connected(int world, const std::function<std::shared_ptr<DeviceReach>(int rank)>& reach) {
  std::vector<DeviceComms> made(static_cast<std::size_t>(world));
  Comms hosts = make_thread_comms(world);
  std::vector<std::shared_ptr<Comm>> shared;
  for (auto& host : hosts) shared.emplace_back(std::move(host));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      made[static_cast<std::size_t>(rank)] = connect_devices(shared[static_cast<std::size_t>(rank)], reach(rank));
    });
  }
  for (auto& thread : threads) thread.join();
  return made;
}

TEST(DeviceComms, HaveOneForDevicesBesideThatOfHostsInEveryGroup) {
  const auto made = connected(4, [](int rank) { return std::make_shared<FakeReach>(rank); });
  std::vector<std::thread> threads;
  for (const DeviceComms& one : made) {
    threads.emplace_back([&one] {
      ASSERT_NE(one.comm->on_device(), nullptr);
      EXPECT_EQ(one.comm->on_device()->capabilities().backend, "ipc");
      EXPECT_FALSE(one.comm->capabilities().device_memory);
      const auto part = one.comm->split(one.comm->rank() % 2, one.comm->rank());
      ASSERT_NE(on_device(*part), nullptr);
      std::int64_t here = 1, there = 1;
      part->all_reduce(&here, &here, 1, DType::i64, ReduceOp::sum).wait();
      on_device(*part)->all_reduce(&there, &there, 1, DType::i64, ReduceOp::sum).wait();
      EXPECT_EQ(here, 2);
      EXPECT_EQ(there, 2);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(DeviceComms, AreRefusedByAllRanksWhereOneCannotAndSayWhy) {
  const auto without = connected(3, [](int rank) -> std::shared_ptr<DeviceReach> {
    return rank == 1 ? nullptr : std::make_shared<FakeReach>(rank);
  });
  for (const DeviceComms& one : without) EXPECT_EQ(one.why_not, "rank 1: it has no GPU");
  const auto refused = connected(2, [](int rank) {
    auto reach = std::make_shared<FakeReach>(rank);
    if (rank == 1) reach->refusal = "no handles for this memory";
    return reach;
  });
  for (const DeviceComms& one : refused) EXPECT_EQ(one.why_not, "rank 1: [fake] no handles for this memory");
  const auto closed = connected(2, [](int rank) {
    auto reach = std::make_shared<FakeReach>(rank);
    reach->closed_to_others = rank == 0;
    return reach;
  });
  for (const DeviceComms& one : closed) {
    EXPECT_EQ(one.why_not, "rank 0: [fake] memory of other processes is refused");
    EXPECT_EQ(one.comm->on_device(), nullptr);
  }
}

}  // namespace
}  // namespace starling::dist
