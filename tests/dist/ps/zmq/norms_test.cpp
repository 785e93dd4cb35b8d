#include <gtest/gtest.h>

#include "dist/ps/ps_testing.h"
#include "starling/dist/ps/norm_exchange.h"
#include "starling/dist/ps/served_keys.h"

namespace starling::dist::ps {
namespace {

double largest_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double largest = 0;
  for (std::size_t t = 0; t < a.size(); ++t) {
    for (std::int64_t i = 0; i < a[t].numel(); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(a[t].data<float>()[i] - b[t].data<float>()[i])));
  }
  return largest;
}

// A net whose layers are cut although the rates of their steps depend on norms of whole layers.
std::vector<ServedTensor> uneven_net() {
  return {{.name = "a", .type = {DType::f32, {60, 50}}}, {.name = "b", .type = {DType::f32, {500}}, .lr_scale = 0.5}};
}

// First weights whose pieces have very different norms.
std::vector<Tensor> uneven_weights() {
  auto all = first_weights(uneven_net());
  for (auto& w : all) {
    for (std::int64_t i = 0; i < w.numel() / 2; ++i) w.data<float>()[i] *= 20;
  }
  return all;
}

std::unique_ptr<optim::Optimizer> serial_of(const std::string& name, const std::vector<Tensor>& weights) {
  std::vector<optim::ParameterGroup> groups;
  for (std::size_t t = 0; t < weights.size(); ++t) {
    Tensor w = weights[t];
    w.set_name(uneven_net()[t].name).set_requires_grad();
    groups.push_back({.parameters = {w}, .lr_scale = uneven_net()[t].lr_scale});
  }
  return optimizer_named(name)(groups);
}

// Gradients of one size everywhere: pieces differ in |w| / |g|.
std::vector<Tensor> even_gradients(int seed) {
  std::vector<Tensor> all;
  for (const auto& tensor : uneven_net()) all.push_back(values_like(tensor.type, seed + static_cast<int>(all.size())));
  return all;
}

TEST(PsNorms, OfWholeTensorsDecideTheRatesOfPieces) {
  for (const std::string kind : {"inproc", "ipc", "tcp"}) {  // tcp: addresses are known after listening
    for (const std::string name : {"lars", "lamb"}) {
      SCOPED_TRACE(kind + " " + name);
      const auto net = uneven_net();
      const ServerThreads servers(kind, net, 3, {.optimizer = optimizer_named(name)});
      ASSERT_EQ(servers.table.keys_of(0).size(), 3U);
      const auto worker = servers.client(0);
      put_all(*worker, uneven_weights());
      const auto weights = uneven_weights();
      const auto serial = serial_of(name, weights);
      for (int step = 0; step < 5; ++step) {
        const auto gradients = even_gradients(step);
        push_all(*worker, gradients, {.clock = step, .lr = 1});
        for (std::size_t t = 0; t < weights.size(); ++t) weights[t].set_grad(gradients[t]);
        serial->set_lr(1);
        serial->step();
      }
      EXPECT_LT(largest_difference(pull_all(*worker), weights), 2e-5);  // of weights up to 10
      for (const auto& [what, tensor] : serial->state()) {
        if (tensor.rank() > 0 || !what.ends_with(".step")) continue;
        const auto state = worker->state();
        EXPECT_TRUE(same_bits(std::ranges::find(state, what, &NamedTensor::name)->tensor, tensor)) << what;
      }
    }
  }
}

// The control: norms of the pieces alone lead elsewhere.
TEST(PsNorms, OfPiecesAloneWouldLeadElsewhere) {
  for (const std::string name : {"lars", "lamb"}) {
    const auto whole = uneven_weights();
    const auto serial = serial_of(name, whole);
    serial->set_lr(1);
    const auto gradients = even_gradients(0);
    Tensor piece = empty({1500});
    std::copy_n(whole[0].data<float>(), 1500, piece.data<float>());
    piece.set_name("piece").set_requires_grad();
    const auto alone = optimizer_named(name)({{.parameters = {piece}}});
    alone->set_lr(1);
    Tensor part = empty({1500});
    std::copy_n(gradients[0].data<float>(), 1500, part.data<float>());
    piece.set_grad(part);
    alone->step();
    for (std::size_t t = 0; t < whole.size(); ++t) whole[t].set_grad(gradients[t]);
    serial->step();
    double largest = 0;
    for (int i = 0; i < 1500; ++i)
      largest = std::max(largest, std::abs(static_cast<double>(piece.data<float>()[i] - whole[0].data<float>()[i])));
    EXPECT_GT(largest, 2e-4) << name;
  }
}

// Workers whose pushes reach servers in different orders: all steps are made, nobody waits for ever.
TEST(PsNorms, AreExchangedWhateverTheOrderOfWorkers) {
  for (const std::int64_t bound : {std::int64_t{0}, std::int64_t{2}, kUnbounded}) {
    const auto net = uneven_net();
    const ServerThreads servers("inproc", net, 3,
                                {.optimizer = optimizer_named("lamb"), .clock = {.workers = 3, .bound = bound}});
    put_all(*servers.client(-1), uneven_weights());
    std::vector<std::thread> threads;
    for (int w = 0; w < 3; ++w) {
      threads.emplace_back([&, w] {
        const auto client = servers.client(w);
        for (int c = 0; c < 20; ++c)
          push_all(*client, SerialRun::gradients_at(pull_all(*client, c), w + 3 * c), {.clock = c});
        client->leave();
      });
    }
    for (auto& thread : threads) thread.join();
    const auto observer = servers.client(-1);
    pull_all(*observer);
    EXPECT_EQ(counter(observer->server_counters(), "updates"), static_cast<double>(60 * servers.table.keys().size()));
  }
}

// A worker that died between the pieces of a push: nobody waits for what no other server will ever get.
TEST(PsNorms, OfALostWorkersHalfPushKeepNobodyWaiting) {
  for (const bool lost : {true, false}) {
    const KeyTable table(uneven_net(), 2);
    ServedKeys half(table, 0, optimizer_named("lars"), {.workers = 2, .bound = kUnbounded});
    const auto weights = uneven_weights();
    for (const Key& key : table.held_by(0)) {
      const Bytes all = share(weights[key.tensor]);
      ASSERT_TRUE(
          half.change({.verb = Verb::put, .key = key.id}, std::vector{Bytes{all.owner, all.data, table.bytes(key)}}));
    }
    const Key key = table.held_by(0)[0];
    const Bytes gradient = share(even_gradients(0)[key.tensor]);
    const Header push{.verb = Verb::push, .worker = 1, .key = key.id, .number = 1};
    ASSERT_TRUE(half.change(push, std::vector{Bytes{gradient.owner, gradient.data, table.bytes(key)}}));
    const Header read{.verb = Verb::pull, .worker = 0, .key = key.id};
    EXPECT_FALSE(half.may_read(read)) << "server 1 has not told its sums";
    // Control: one that leaves by itself has pushed everywhere, so its step is only on its way.
    ASSERT_TRUE(half.change({.verb = Verb::retire, .worker = lost ? kObserver : 1, .slot = 1}, {}));
    EXPECT_EQ(half.may_read(read), lost);
    EXPECT_EQ(counter(half.counters(), "forgotten"), lost ? 1 : 0);
  }
}

TEST(PsNorms, NeedTheAddressesOfAllServers) {
  const KeyTable table(uneven_net(), 2);
  const auto wire = make_wire();
  Server lars(wire, table, {.address = "inproc://lars", .optimizer = optimizer_named("lars")});
  EXPECT_THROW(lars.run(), Error);
  EXPECT_THROW(lars.start(), Error);
  EXPECT_THROW(lars.meet({"inproc://lars"}), Error);
  Server adam(wire, table, {.address = "inproc://adam", .optimizer = optimizer_named("adam")});
  EXPECT_NO_THROW(adam.run([] { return true; }));
  EXPECT_THROW(Server(wire, table, {.address = "inproc://x", .is_backup = true, .optimizer = optimizer_named("lars")}),
               Error);
  EXPECT_TRUE(needs_norms(optimizer_named("lars")) && needs_norms(optimizer_named("lamb")));
  EXPECT_FALSE(needs_norms(optimizer_named("adam")) || needs_norms(optimizer_named("sgd")) || needs_norms({}));
}

}  // namespace
}  // namespace starling::dist::ps
