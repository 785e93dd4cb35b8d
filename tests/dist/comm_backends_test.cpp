#include <gtest/gtest.h>

#include <thread>

#include "dist/comm_worlds.h"
#include "starling/base/config/config.h"
#include "starling/dist/comm/backend.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/dist/launch/connect.h"
#include "starling/dist/launch/store/store.h"
#include "testing/temporary_folder.h"

namespace starling::dist {
namespace {

using testing::error_of;

// A backend that no list outside this file knows: two ranks that are threads.
struct Pigeons {
  std::vector<std::unique_ptr<Comm>> comms = make_thread_comms(2);
  std::vector<BackendOptions> asked = std::vector<BackendOptions>(2);
};
Pigeons* pigeons = nullptr;

std::unique_ptr<Comm> fly(const std::shared_ptr<Store>& store, const BackendOptions& options) {
  store->set("asked", "pigeons");
  const auto rank = static_cast<std::size_t>(options.rank);
  pigeons->asked[rank] = options;
  return std::move(pigeons->comms[rank]);
}

TEST(CommBackends, AreThoseOfTheFilesInKinds) {
  EXPECT_EQ(backend_names(), (std::vector<std::string>{"shared", "gloo", "mpi"}));
  EXPECT_EQ(backend_choices(for_launchers), (std::vector<std::string>{"auto", "shared", "gloo"}));
  EXPECT_EQ(either(backend_choices()), "auto, shared, gloo or mpi");
  EXPECT_EQ(device_backend_names(), (std::vector<std::string>{"ipc", "nccl"}));
}

TEST(CommBackends, OfDevicesAreForJobsAlone) {
  const auto read = [](const char* text) {
    return detail::SettingType<BackendChoice>::read(ConfigNode::parse(text, "job.yaml"), {});
  };
  EXPECT_EQ(read("ipc").name, "ipc");
  EXPECT_EQ(read("ipc").between_processes(), "auto");
  EXPECT_EQ(read("gloo").between_processes(), "gloo");
  EXPECT_TRUE(contains(error_of([&] { read("nickel"); }), "auto, shared, gloo, mpi, ipc, nccl"));
  EXPECT_TRUE(contains(error_of([] { find_backend("ipc"); }), "(auto, shared, gloo, mpi), got 'ipc'"));
}

TEST(CommBackends, AreFoundByName) {
  EXPECT_EQ(find_backend(""), nullptr);
  EXPECT_EQ(find_backend("auto"), nullptr);
  EXPECT_EQ(find_backend("gloo")->name, "gloo");
  EXPECT_TRUE(contains(error_of([] { find_backend("glue"); }), "(auto, shared, gloo, mpi), got 'glue'"));
}

TEST(CommBackends, HaveNamesAndPlacesOfTheirOwn) {
  CommBackends table;
  table.add({.name = "b", .title = "B", .order = 2});
  table.add({.name = "a", .title = "A", .order = 1});
  EXPECT_EQ(table.in_order().front().name, "a");
  EXPECT_TRUE(contains(error_of([&] { table.add({.name = "b", .title = "C", .order = 3}); }), "got 'b' again"));
  EXPECT_TRUE(contains(error_of([&] { table.add({.name = "c", .title = "C", .order = 2}); }), "got that of 'b'"));
}

TEST(CommBackends, ConnectAWorldByTheirEntryAlone) {
  Pigeons all;
  pigeons = &all;
  const CommBackend backend{.name = "pigeon", .title = "Pigeons", .order = 1, .make = fly};
  const auto store = make_memory_store();
  std::vector<ConnectedWorld> worlds;
  for (int rank = 0; rank < 2; ++rank) worlds.push_back({.hosts = HostMap({0, 0}, rank)});
  const auto connect = [&](int rank) {
    ConnectOptions options{.backend = &backend, .epoch = 7, .checking = false, .all_reduce = "ring", .listen = "::1"};
    options.join_deadline = std::chrono::milliseconds(10'000);
    worlds[static_cast<std::size_t>(rank)] = connect_world({.rank = rank, .world = 2}, store, options);
  };
  std::thread other(connect, 1);
  connect(0);
  other.join();
  EXPECT_EQ(worlds[0].backend, "pigeon");
  EXPECT_EQ(worlds[1].comm->rank(), 1);
  EXPECT_EQ(all.asked[1].rank, 1);
  EXPECT_EQ(all.asked[1].world, 2);
  EXPECT_EQ(all.asked[1].epoch, 7U);
  EXPECT_EQ(all.asked[1].label, "world");
  EXPECT_EQ(all.asked[1].all_reduce, "ring");
  EXPECT_EQ(all.asked[1].listen, "::1");
  EXPECT_EQ(with_prefix(store, "pigeon")->get("asked", std::chrono::milliseconds(0)), "pigeons") << "keys of its own";
}

TEST(CommBackends, OfOneHostTakeNoAllReduceByMessages) {
  ConnectOptions options{.backend = find_backend("shared"), .all_reduce = "ring"};
  const auto error = error_of([&] { connect_world({}, make_memory_store(), options); });
  EXPECT_TRUE(contains(error, "a backend of messages, auto, gloo or mpi, with the all-reduce 'ring', got shared"))
      << error;
}

}  // namespace
}  // namespace starling::dist
