#include <gtest/gtest.h>

#include <random>

#include "dist/ps/ps_testing.h"

namespace starling::dist::ps {
namespace {

const std::vector<std::string> kKinds{"inproc", "ipc", "tcp"};

bool arrives(Client& client, Client::Ticket ticket, milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    if (client.done(ticket)) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

TEST(PsClocks, AReaderGetsExactlyAsFarAheadAsTheBound) {
  const std::vector<ServedTensor> net{{.name = "w", .type = {DType::f32, {64}}}};
  for (const auto& kind : kKinds) {
    for (const std::int64_t s : {0, 1, 3}) {
      SCOPED_TRACE(kind + ", bound " + std::to_string(s));
      const ServerThreads servers(kind, net, 2, {.clock = {.workers = 2, .bound = s}});
      const auto fast = servers.client(0), slow = servers.client(1);
      put_all(*fast, {zeros({64})});
      const Tensor one = values_like({DType::f32, {64}}, 1), into = empty({64});
      for (std::int64_t c = 0; c <= s; ++c) {
        fast->wait(fast->pull(0, into, c));
        push_all(*fast, {one}, {.clock = c});
      }
      const auto blocked = fast->pull(0, into, s + 1);
      EXPECT_FALSE(arrives(*fast, blocked, milliseconds(50)));
      EXPECT_EQ(counter(slow->server_counters(), "gap.largest"), static_cast<double>(s));
      push_all(*slow, {one}, {.clock = 0});
      fast->wait(blocked);
      const auto counters = slow->server_counters();
      EXPECT_EQ(counter(counters, "gap.largest"), static_cast<double>(s));  // never s + 1
      EXPECT_GE(counter(counters, "waits"), 2);                             // one for each key
      EXPECT_GT(counter(counters, "wait_seconds"), 0.05);
    }
  }
}

TEST(PsClocks, WithoutABoundNobodyWaitsBesideAStoppedWorker) {
  const std::vector<ServedTensor> net{{.name = "w", .type = {DType::f32, {64}}}};
  const ServerThreads servers("inproc", net, 1, {.clock = {.workers = 2}});
  const auto fast = servers.client(0), stopped = servers.client(1);
  put_all(*fast, {zeros({64})});
  const Tensor one = values_like({DType::f32, {64}}, 1), into = empty({64});
  for (int c = 0; c < 1000; ++c) fast->wait(fast->push_pull(0, one, into, {.clock = c}));
  const auto counters = fast->server_counters();
  EXPECT_EQ(counter(counters, "waits"), 0);
  EXPECT_EQ(counter(counters, "updates"), 1000);
  EXPECT_EQ(counter(counters, "gap.largest"), 1000);  // the control: it does run ahead
}

// Workers with random pauses; every one computes its gradients from what it reads.
std::vector<Tensor> trained_by(int workers, int clocks, const ClockOptions& clock, const std::string& kind, int seed,
                               const std::string& optimizer = "adagrad") {
  const auto net = small_net();
  const ServerThreads servers(kind, net, 2, {.optimizer = optimizer_named(optimizer), .clock = clock});
  put_all(*servers.client(-1), first_weights(net));
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      std::mt19937 random(static_cast<unsigned>(seed * 100 + w));
      const auto client = servers.client(w);
      for (int c = 0; c < clocks; ++c) {
        const auto weights = pull_all(*client, c);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
        push_all(*client, SerialRun::gradients_at(weights, c * workers + w), {.clock = c, .weight = w + 1.0});
      }
      client->leave();
    });
  }
  for (auto& thread : threads) thread.join();
  return pull_all(*servers.client(-1));
}

TEST(PsClocks, OfBoundZeroEqualBulkSynchronousTrainingBitForBit) {
  const int workers = 3, clocks = 5;
  SerialRun serial(small_net(), optimizer_named("adagrad"));
  for (int c = 0; c < clocks; ++c) {
    std::vector<std::vector<Tensor>> gradients;  // all at the same weights
    for (int w = 0; w < workers; ++w) gradients.push_back(serial.gradients(c * workers + w));
    for (const auto& one : gradients) serial.step(one);
  }
  for (const auto& kind : kKinds)
    expect_same(trained_by(workers, clocks, {.workers = workers, .bound = 0}, kind, 1), serial.weights(), kind);
  // The control: with a bound of two, workers see updates of each other's clocks.
  EXPECT_FALSE(all_same(trained_by(workers, clocks, {.workers = workers, .bound = 2}, "inproc", 1), serial.weights()));
}

TEST(PsClocks, MeansOfAClockEqualOneStepWithTheMeanGradient) {
  const int workers = 3, clocks = 4;
  SerialRun serial(small_net(), optimizer_named("sgd"));
  for (int c = 0; c < clocks; ++c) {
    std::vector<Tensor> mean;
    for (int w = 0; w < workers; ++w) {
      const auto gradients = serial.gradients(c * workers + w);
      for (std::size_t t = 0; t < gradients.size(); ++t) {
        if (w == 0) mean.push_back(zeros(gradients[t].shape()));
        for (std::int64_t i = 0; i < mean[t].numel(); ++i)
          mean[t].data<float>()[i] += gradients[t].data<float>()[i] * static_cast<float>((w + 1.0) / 6);
      }
    }
    serial.step(mean);
  }
  const auto got = trained_by(workers, clocks, {.workers = workers, .bound = 0, .merge = Merge::mean}, "ipc", 2, "sgd");
  for (std::size_t t = 0; t < got.size(); ++t) {
    for (std::int64_t i = 0; i < got[t].numel(); ++i)
      ASSERT_NEAR(got[t].data<float>()[i], serial.weights()[t].data<float>()[i], 1e-6);
  }
  EXPECT_FALSE(all_same(trained_by(workers, clocks, {.workers = workers}, "inproc", 2, "sgd"), got));
}

TEST(PsClocks, CountHowStaleGradientsWere) {
  const std::vector<ServedTensor> net{{.name = "w", .type = {DType::f32, {64}}}};
  const ServerThreads servers("inproc", net, 1, {.clock = {.workers = 2}});
  const auto a = servers.client(0), b = servers.client(1);
  put_all(*a, {zeros({64})});
  const Tensor one = values_like({DType::f32, {64}}, 1), into = empty({64});
  a->wait(a->pull(0, into, 0));
  for (int c = 0; c < 3; ++c) {
    b->wait(b->pull(0, into, c));
    push_all(*b, {one}, {.clock = c});
  }
  push_all(*a, {one}, {.clock = 0});  // three updates have been made since it read
  const auto counters = a->server_counters();
  EXPECT_EQ(counter(counters, "staleness.0"), 3);
  EXPECT_EQ(counter(counters, "staleness.3"), 1);
  EXPECT_EQ(counter(counters, "staleness.largest"), 3);
}

}  // namespace
}  // namespace starling::dist::ps
