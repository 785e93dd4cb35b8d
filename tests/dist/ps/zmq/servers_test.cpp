#include <gtest/gtest.h>

#include <limits>

#include "dist/ps/ps_testing.h"
#include "starling/base/thread/as_rank.h"
#include "starling/ops/api/row_sparse.h"

namespace starling::dist::ps {
namespace {

const std::vector<std::string> kKinds{"inproc", "ipc", "tcp"};

TEST(PsServers, OneWorkerThatPushesEveryStepEqualsTheSerialOptimizer) {
  for (const auto& kind : kKinds) {
    for (const std::string name : {"adagrad", "adam"}) {
      SCOPED_TRACE(kind + " " + name);
      const auto net = small_net();
      const ServerThreads servers(kind, net, 2, {.optimizer = optimizer_named(name)});
      const auto worker = servers.client(0);
      put_all(*worker, first_weights(net));
      SerialRun serial(net, optimizer_named(name));
      for (int step = 0; step < 5; ++step) {
        push_all(*worker, SerialRun::gradients_at(pull_all(*worker), step), {.clock = step});
        serial.step(serial.gradients(step));
      }
      expect_same(pull_all(*worker), serial.weights(), "after five steps");
    }
  }
}

// The control: weights that are fetched every other step only.
TEST(PsServers, OneWorkerThatFetchesEveryOtherStepDoesNot) {
  const auto net = small_net();
  const ServerThreads servers("inproc", net, 2, {.optimizer = optimizer_named("adagrad")});
  const auto worker = servers.client(0);
  put_all(*worker, first_weights(net));
  SerialRun serial(net, optimizer_named("adagrad"));
  std::vector<Tensor> fetched;
  for (int step = 0; step < 4; ++step) {
    if (step % 2 == 0) fetched = pull_all(*worker);
    push_all(*worker, SerialRun::gradients_at(fetched, step), {.clock = step});
    serial.step(serial.gradients(step));
  }
  EXPECT_FALSE(all_same(pull_all(*worker), serial.weights()));
}

TEST(PsServers, RunEveryOptimizerOfJobs) {
  auto net = small_net();
  for (const auto& name : optim::optimizer_kinds().names()) {
    SCOPED_TRACE(name);
    const bool norms = name == "lars" || name == "lamb";  // rates of whole tensors
    for (auto& tensor : net) tensor.whole = norms;
    const ServerThreads servers("inproc", net, 2, {.optimizer = optimizer_named(name)});
    const auto worker = servers.client(0);
    put_all(*worker, first_weights(net));
    SerialRun serial(net, optimizer_named(name));
    for (int step = 0; step < 3; ++step) {
      push_all(*worker, serial.gradients(step), {.clock = step, .lr = 0.01 * (step + 1)});
      for (const auto& [what, rate] : serial.state()) {
        if (what.ends_with(".lr")) copy_into(rate, from_doubles(std::vector{0.01 * (step + 1)}, {}, rate.dtype()));
      }
      serial.step(serial.gradients(step));
    }
    expect_same(pull_all(*worker), serial.weights(), name);
  }
}

TEST(PsServers, PushAndPullInOneMessageIsTheSame) {
  const auto net = small_net();
  const ServerThreads servers("ipc", net, 3, {.optimizer = optimizer_named("sgd")});
  const auto worker = servers.client(0);
  put_all(*worker, first_weights(net));
  SerialRun serial(net, optimizer_named("sgd"));
  auto weights = pull_all(*worker);
  for (int step = 0; step < 4; ++step) {
    const auto gradients = SerialRun::gradients_at(weights, step);
    for (std::size_t t = 0; t < net.size(); ++t) worker->push_pull(t, gradients[t], weights[t], {.clock = step});
    worker->wait_all();
    serial.step(serial.gradients(step));
    expect_same(weights, serial.weights(), "step " + std::to_string(step));
  }
}

// Sends raw messages, as a client that repeats itself does.
TEST(PsServers, ARepeatedPushChangesNothing) {
  const std::vector<ServedTensor> net{{.name = "w", .type = {DType::f32, {64}}}};
  const ServerThreads servers("tcp", net, 1);  // adds what is pushed
  const auto worker = servers.client(0);
  put_all(*worker, {zeros({64})});
  const Tensor one = zeros({64});
  std::fill_n(one.data<float>(), 64, 1.0F);
  const auto line = servers.wire->connect(servers.places[0].address, 1 << 20);
  const auto push = [&](std::uint64_t number) { line->send({{.verb = Verb::push, .number = number}, {share(one)}}); };
  for (const std::uint64_t number : {100U, 100U, 101U, 100U, 101U}) push(number);
  for (int answers = 0; answers < 5;) {
    Socket* sockets[] = {line.get()};
    ASSERT_TRUE(servers.wire->wait(sockets, milliseconds(5000)));
    while (auto answer = line->receive()) {
      EXPECT_EQ(answer->header.verb, Verb::done);
      ++answers;
    }
  }
  EXPECT_EQ(pull_all(*worker)[0].data<float>()[5], 2);  // two numbers, two pushes
  EXPECT_EQ(counter(worker->server_counters(), "repeats"), 3);
  EXPECT_EQ(counter(worker->server_counters(), "pushes"), 2);
}

TEST(PsServers, AWorkerThatComesAgainContinuesItsNumbers) {
  const std::vector<ServedTensor> net{{.name = "w", .type = {DType::f32, {64}}}};
  const ServerThreads servers("inproc", net, 2);
  auto worker = servers.client(0);
  put_all(*worker, {zeros({64})});
  push_all(*worker, {values_like({DType::f32, {64}}, 1)});
  worker = servers.client(0);
  push_all(*worker, {values_like({DType::f32, {64}}, 1)});
  EXPECT_EQ(counter(worker->server_counters(), "repeats"), 0);
  EXPECT_EQ(counter(worker->server_counters(), "updates"), 4);  // two keys, twice
}

TEST(PsServers, HoldTableRowsThatNoWorkerHasWhole) {
  const std::vector<ServedTensor> net{{.name = "table", .type = {DType::f32, {50, 6}}, .by_rows = true}};
  for (const auto& kind : kKinds) {
    const ServerThreads servers(kind, net, 3, {.optimizer = optimizer_named("adagrad")});
    const auto worker = servers.client(0);
    put_all(*worker, first_weights(net));
    SerialRun serial(net, optimizer_named("adagrad"));
    for (int step = 0; step < 3; ++step) {
      const Tensor rows = from_host<std::int64_t>(std::vector<std::int64_t>{49, 0, 17, 17, step}, {5});
      const Tensor sparse = row_sparse(rows, values_like({DType::f32, {5, 6}}, step), {50, 6});
      push_all(*worker, {sparse}, {.clock = step});
      serial.step({row_sparse(rows, values_like({DType::f32, {5, 6}}, step), {50, 6})});
    }
    const Tensor rows = from_host<std::int64_t>(std::vector<std::int64_t>{17, 49, 3, 17}, {4});
    const Tensor got = worker->pull_rows(0, rows);
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(std::memcmp(got.data<float>() + i * 6,
                            serial.weights()[0].data<float>() + rows.data<std::int64_t>()[i] * 6, 24),
                0)
          << kind << i;
    expect_same(pull_all(*worker), serial.weights(), kind);
    const auto counters = worker->counters();
    EXPECT_EQ(counter(counters, "bytes_out"), 1200 + 3 * (5 * 24 + 5 * 8) + 4 * 8);  // the table once, then rows alone
    EXPECT_THROW(worker->pull_rows(0, from_host<std::int64_t>(std::vector<std::int64_t>{50}, {1})), Error);
  }
}

TEST(PsServers, TellStateAsWholeTensorsAndTakeItBackOnOtherNumbersOfServers) {
  const auto net = small_net();
  SerialRun serial(net, optimizer_named("adam"));
  std::vector<NamedTensor> saved;
  {
    const ServerThreads servers("inproc", net, 3, {.optimizer = optimizer_named("adam")});
    const auto worker = servers.client(0);
    put_all(*worker, first_weights(net));
    for (int step = 0; step < 3; ++step) {
      push_all(*worker, serial.gradients(step));
      serial.step(serial.gradients(step));
    }
    saved = worker->state();
  }
  for (const auto& [name, tensor] : serial.state()) {
    const auto found = std::ranges::find(saved, name, &NamedTensor::name);
    ASSERT_NE(found, saved.end()) << name;
    EXPECT_TRUE(same_bits(found->tensor, tensor)) << name;
  }
  EXPECT_EQ(saved.size(), serial.state().size() + net.size());
  const ServerThreads others("inproc", net, 2, {.optimizer = optimizer_named("adam")});
  const auto worker = others.client(0);
  worker->load(saved);
  push_all(*worker, serial.gradients(9));
  serial.step(serial.gradients(9));
  expect_same(pull_all(*worker), serial.weights(), "one more step");
  EXPECT_THROW(worker->load({{"a.wieght", zeros({40, 30})}}), Error);
  EXPECT_THROW(worker->load({{"a.weight", zeros({30})}}), Error);
}

TEST(PsServers, LetAnObserverLookOnWithoutWaiting) {
  const auto net = small_net();
  const ServerThreads servers("inproc", net, 2, {.clock = {.workers = 2, .bound = 0}});
  const auto worker = servers.client(0);
  put_all(*worker, first_weights(net));
  push_all(*worker, first_weights(net), {.clock = 0});
  const auto observer = servers.client(-1);
  expect_same(pull_all(*observer, 7), first_weights(net), "before the clock is complete");
  EXPECT_THROW(push_all(*observer, first_weights(net)), Error);
  observer->retire(1);
  EXPECT_FALSE(all_same(pull_all(*observer), first_weights(net)));
}

TEST(PsServers, RefuseWhatDoesNotFitByName) {
  const auto net = small_net();
  const ServerThreads servers("tcp", net, 2, {.optimizer = optimizer_named("sgd")});
  const auto worker = servers.client(0);
  const auto message = [&](auto&& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message([&] { push_all(*worker, first_weights(net)); }).find("[worker 0] server "), std::string::npos);
  const auto slopes = [&, observer = servers.client(-1)] { observer->pseudo_gradient(2, 0.5, 1); };  // of the weights
  EXPECT_NE(message(slopes).find("expected weights before a command"), std::string::npos);
  put_all(*worker, first_weights(net));
  EXPECT_EQ(message(slopes), "") << "control: weights are there";
  EXPECT_NE(message([&] { worker->push(0, zeros({3})); }).find("'a.weight' as f32[40, 30], got f32[3]"),
            std::string::npos);
  const auto stranger = servers.client(5);  // no such worker
  EXPECT_NE(message([&] { push_all(*stranger, first_weights(net)); }).find("expected a worker in [0, 1), got 5"),
            std::string::npos);
}

TEST(PsServers, SurviveGarbageOfStrangers) {
  const auto net = small_net();
  const std::string secret = "a secret that is long enough";
  const ServerThreads servers("tcp", net, 1, {}, secret);
  const auto line = servers.wire->connect(servers.places[0].address, 1 << 20);
  for (int verb = 0; verb <= static_cast<int>(Verb::refused); ++verb) {
    for (const std::uint32_t key : {0U, 77U, 0xFFFFFFFFU}) {
      line->send({{.verb = static_cast<Verb>(verb), .worker = key, .key = key, .clock = -1, .slot = key},
                  {bytes_of_text("junk")}});
    }
  }
  const auto worker = servers.client(0);
  put_all(*worker, first_weights(net));
  EXPECT_GE(counter(worker->server_counters(), "strangers"), 60);
  EXPECT_EQ(counter(worker->server_counters(), "bytes_in"), static_cast<double>(servers.table.bytes(0) + 32));
}

// The same from one who knows the secret: refused, each by itself.
TEST(PsServers, SurviveGarbageOfFriends) {
  const auto net = small_net();
  const ServerThreads servers("tcp", net, 1, {.optimizer = optimizer_named("adam"), .clock = {.workers = 2}});
  const auto worker = servers.client(0);
  put_all(*worker, first_weights(net));
  const auto line = servers.wire->connect(servers.places[0].address, 1 << 20);
  for (int verb = 0; verb <= static_cast<int>(Verb::refused); ++verb) {
    if (static_cast<Verb>(verb) == Verb::stop) continue;
    for (const std::uint32_t key : {0U, 1U, 77U, 0xFFFFFFFFU}) {
      for (const std::size_t parts : {0U, 1U, 2U, 3U}) {
        Message message{{.verb = static_cast<Verb>(verb),
                         .worker = key,
                         .key = key,
                         .number = 5,
                         .clock = -9,
                         .weight = -1,
                         .slot = key},
                        {}};
        for (std::size_t p = 0; p < parts; ++p) message.parts.push_back(bytes_of_text(std::string(13, 'x')));
        line->send(message);
      }
    }
  }
  const Tensor gradient = first_weights(net)[0];
  for (const std::int64_t clock :
       {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    for (const auto verb : {Verb::push, Verb::pull, Verb::tick, Verb::hello, Verb::push_pull})
      line->send({{.verb = verb, .number = 9, .clock = clock}, {share(gradient)}});
  }
  line->send({{.verb = Verb::push, .number = 9, .lr = std::numeric_limits<double>::infinity()}, {share(gradient)}});
  expect_same(pull_all(*worker), first_weights(net), "nothing changed");
}

// Label: waits
TEST(PsServers, AreNamedWhenSilent) {
  const auto net = small_net();
  ServerThreads servers("ipc", net, 2);
  const auto worker = servers.client(0, {.silence = milliseconds(2000)});
  put_all(*worker, first_weights(net));
  servers.running[1]->stop();
  try {
    pull_all(*worker);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("[worker 0] server 1 (ipc://"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("silent"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace starling::dist::ps
