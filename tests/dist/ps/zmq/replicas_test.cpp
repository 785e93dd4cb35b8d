#include <gtest/gtest.h>

#include <random>

#include "dist/ps/ps_testing.h"
#include "dist/rank_processes.h"

namespace starling::dist::ps {
namespace {

const std::vector<ServedTensor> kOne{{.name = "w", .type = {DType::f32, {1000}}}};

// Primary and backup as processes, 0 and 1.
void start_pair(RankProcesses& processes, const std::string& scheme) {
  processes.start_all([&processes, scheme](int rank) {
    const std::string mine = "ipc://" + processes.folder() + "/" + std::to_string(rank);
    const std::string other = "ipc://" + processes.folder() + "/1";
    Server server(make_wire(), KeyTable(kOne, 1),
                  {.name = scheme,
                   .address = mine,
                   .backup = rank == 0 ? other : "",
                   .is_backup = rank == 1,
                   .clock = {.workers = 3}});
    server.run();
    return std::string("ended");
  });
}

ClientOptions client_of(const RankProcesses& processes, int worker, bool with_backup = true) {
  return {.worker = worker,
          .servers = {{.address = "ipc://" + processes.folder() + "/0",
                       .backup = with_backup ? "ipc://" + processes.folder() + "/1" : ""}},
          .silence = milliseconds(30'000),  // a lost connection is noticed at once
          .retry = milliseconds(500)};
}

Tensor ones() {
  const Tensor made = zeros({1000});
  std::fill_n(made.data<float>(), 1000, 1.0F);
  return made;
}

// Every acknowledged push counts once, whenever the primary dies: the weights are the number of pushes.
TEST(PsReplicas, LoseNoAcknowledgedPushWhenThePrimaryIsKilled) {
  for (int seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    RankProcesses processes(2);
    start_pair(processes, "pair");
    {
      Client starter(make_wire(), KeyTable(kOne, 1), client_of(processes, -1));
      starter.put(0, zeros({1000}));
    }
    std::atomic<int> acknowledged{0}, failovers{0};
    std::vector<std::thread> workers;
    for (int w = 0; w < 3; ++w) {
      workers.emplace_back([&, w] {
        Client client(make_wire(), KeyTable(kOne, 1), client_of(processes, w));
        const Tensor one = ones();
        for (int step = 0; step < 150; ++step) {
          client.wait(client.push(0, one, {.clock = step}));
          ++acknowledged;
        }
        failovers += static_cast<int>(counter(client.counters(), "failovers"));
      });
    }
    std::mt19937 random(static_cast<unsigned>(seed));
    const int moment = static_cast<int>(random() % 400);
    while (acknowledged < moment) std::this_thread::yield();
    processes.kill(0);
    for (auto& worker : workers) worker.join();
    EXPECT_EQ(acknowledged, 450);
    ClientOptions options = client_of(processes, -1);
    options.servers[0] = {.address = options.servers[0].backup};
    Client observer(make_wire(), KeyTable(kOne, 1), options);
    const Tensor total = pull_all(observer)[0];
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(total.data<float>()[i], 450);
    EXPECT_EQ(counter(observer.server_counters(), "promoted"), 1);
    EXPECT_GE(failovers, 1);
    observer.stop_servers();
    EXPECT_TRUE(processes.await(1, std::chrono::seconds(10)));
  }
}

// The control: without a backup the loss is told, by name.
// Label: waits
TEST(PsReplicas, WithoutOneTheDeadServerIsNamed) {
  RankProcesses processes(2);
  start_pair(processes, "pair");
  ClientOptions options = client_of(processes, 0, false);
  options.silence = milliseconds(2000);
  Client client(make_wire(), KeyTable(kOne, 1), options);
  client.put(0, zeros({1000}));
  processes.kill(0);
  const Tensor one = ones();
  EXPECT_THROW(client.wait(client.push(0, one)), Error);
}

// Label: waits
TEST(PsReplicas, HoldTheSameBitsAsThePrimary) {
  const auto net = small_net();
  const KeyTable table(net, 1);
  const auto wire = make_wire();
  const ServerOptions common{.optimizer = optimizer_named("adam"), .clock = {.workers = 2, .bound = 1}};
  ServerOptions backup = common, primary = common;
  backup.address = "inproc://same-bits-1";
  backup.is_backup = true;
  primary.address = "inproc://same-bits-0";
  primary.backup = backup.address;
  Server second(wire, table, backup), first(wire, table, primary);
  second.start();
  first.start();
  std::vector<std::thread> workers;
  const ClientOptions options{.servers = {{.address = primary.address, .backup = backup.address}}};
  {
    ClientOptions o = options;
    o.worker = -1;
    Client starter(wire, table, o);
    put_all(starter, first_weights(net));
  }
  for (int w = 0; w < 2; ++w) {
    workers.emplace_back([&, w] {
      ClientOptions o = options;
      o.worker = w;
      Client client(wire, table, o);
      for (int c = 0; c < 20; ++c)
        push_all(client, SerialRun::gradients_at(pull_all(client, c), w * 50 + c), {.clock = c});
      client.leave();
    });
  }
  for (auto& worker : workers) worker.join();
  ClientOptions o = options;
  o.worker = -1;
  o.silence = milliseconds(2000);
  Client observer(wire, table, o);
  const auto before = observer.state();
  first.stop();
  const auto after = observer.state();  // of the backup
  EXPECT_EQ(counter(observer.counters(), "failovers"), 1);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(same_bits(before[i].tensor, after[i].tensor)) << before[i].name;
}

TEST(PsReplicas, APrimaryThatWasReplacedServesNobody) {
  const auto wire = make_wire();
  const KeyTable table(kOne, 1);
  Server second(wire, table, {.address = "inproc://replaced-1", .is_backup = true});
  Server first(wire, table, {.address = "inproc://replaced-0", .backup = "inproc://replaced-1"});
  second.start();
  first.start();
  Client client(wire, table, {.servers = {{.address = "inproc://replaced-0", .backup = "inproc://replaced-1"}}});
  client.put(0, zeros({1000}));
  const auto line = wire->connect("inproc://replaced-1", 1 << 20);  // a client that believes the primary to be dead
  line->send({{.verb = Verb::promote}, {}});
  Socket* sockets[] = {line.get()};
  ASSERT_TRUE(wire->wait(sockets, milliseconds(5000)));
  const Tensor one = ones();
  client.wait(client.push(0, one));  // is refused by the old one and counts at the new one
  EXPECT_EQ(counter(client.counters(), "failovers"), 1);
  EXPECT_EQ(pull_all(client)[0].data<float>()[0], 1);
}

TEST(PsReplicas, AServerGoesOnWithoutABackupThatDied) {
  const auto wire = make_wire();
  const KeyTable table(kOne, 1);
  auto second = std::make_unique<Server>(wire, table, ServerOptions{.address = "inproc://alone-1", .is_backup = true});
  Server first(wire, table,
               {.address = "inproc://alone-0", .backup = "inproc://alone-1", .silence = milliseconds(200)});
  second->start();
  first.start();
  Client client(wire, table, {.servers = {{.address = "inproc://alone-0", .backup = "inproc://alone-1"}}});
  client.put(0, zeros({1000}));
  second.reset();
  const Tensor one = ones();
  client.wait(client.push(0, one));
  EXPECT_EQ(pull_all(client)[0].data<float>()[0], 1);
  EXPECT_EQ(counter(client.server_counters(), "replica_lost"), 1);
}

}  // namespace
}  // namespace starling::dist::ps
