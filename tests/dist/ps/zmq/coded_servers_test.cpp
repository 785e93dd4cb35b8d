// Gradients in the form of a codec on their way to servers: several workers, a server that dies, workers that settle.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <random>

#include "dist/ps/ps_testing.h"
#include "dist/rank_processes.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/dist/strategy/servers/server_worker.h"
#include "starling/ops/api/creation.h"

namespace starling::dist::ps {
namespace {

const TensorType kType{DType::f32, {16, 50}};
const std::vector<ServedTensor> kCodedNet{{.name = "w", .type = kType, .by_rows = true}};

Tensor drawn_values(int seed) {
  std::mt19937 generator(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  Tensor made = empty(kType.shape, kType.dtype);
  for (std::int64_t i = 0; i < made.numel(); ++i) made.data<float>()[i] = std::pow(normal(generator), 3.0F);
  return made;
}

double distance(const Tensor& held, const std::vector<double>& given) {
  double most = 0;
  for (std::size_t i = 0; i < given.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(held.data<float>()[i]) - given[i]));
  return most;
}

void add_to(std::vector<double>& sum, const Tensor& one, double factor = 1) {
  sum.resize(static_cast<std::size_t>(one.numel()));
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += factor * static_cast<double>(one.data<float>()[i]);
}

// Pushes of three workers, each of which keeps something, whatever happens to the primary.
struct Pushed {
  std::vector<double> given{};
  int failovers = 0;
};
template <class MakeClient>
Pushed push_by_three(const std::string& codec, const KeyTable& table, int steps, MakeClient&& make) {
  Pushed all;
  std::mutex mutex;
  std::vector<std::thread> workers;
  for (int w = 0; w < 3; ++w) {
    workers.emplace_back([&, w] {
      const std::unique_ptr<Client> client = make(w);
      CodedPushes pushes(PushCodec(CodecChoice::parse(codec)), table);
      std::vector<double> own;
      for (int s = 0; s < steps; ++s) {
        const Tensor gradient = drawn_values(1000 * w + s);
        add_to(own, gradient);
        client->wait(client->push(0, gradient, {.clock = s}, pushes));
      }
      client->wait(client->push_kept(0, {.clock = steps}, pushes));
      const std::scoped_lock lock(mutex);
      all.failovers += static_cast<int>(counter(client->counters(), "failovers"));
      all.given.resize(own.size());
      for (std::size_t i = 0; i < own.size(); ++i) all.given[i] += own[i];
    });
  }
  for (auto& worker : workers) worker.join();
  return all;
}

TEST(PsCodedServers, HoldTheSumOfAllGradientsOverEveryAddress) {
  for (const char* kind : {"inproc", "ipc", "tcp"}) {
    for (const char* codec : {"one_bit", "{name: top_k, share: 0.1}"}) {
      const ServerThreads servers(kind, kCodedNet, 2,
                                  {.clock = {.workers = 3}, .codec = PushCodec(CodecChoice::parse(codec))});
      const auto observer = servers.client(-1);
      put_all(*observer, {zeros(kType.shape)});
      const Pushed pushed = push_by_three(codec, servers.table, 10, [&](int w) { return servers.client(w); });
      EXPECT_LT(distance(pull_all(*observer)[0], pushed.given), 1e-3) << kind << " " << codec;
      const Counters told = observer->server_counters();
      EXPECT_EQ(counter(told, "coded"), 3 * 10 * 2) << "both keys";
      EXPECT_LT(counter(told, "coded_bytes"), counter(told, "decoded_bytes") / 4);
    }
  }
}

TEST(PsCodedServers, RefuseTheFormOfAnotherCodec) {
  const ServerThreads servers("inproc", kCodedNet, 1,
                              {.clock = {.workers = 1}, .codec = PushCodec(CodecChoice::parse("bf16"))});
  const auto client = servers.client(0);
  put_all(*client, {zeros(kType.shape)});
  CodedPushes other(PushCodec(CodecChoice::parse("fp16")), servers.table);
  EXPECT_THROW(client->wait(client->push(0, drawn_values(1), {}, other)), Error);
  CodedPushes same(PushCodec(CodecChoice::parse("bf16")), servers.table);
  client->wait(client->push(0, drawn_values(1), {}, same));
}

// Primary and backup decode the same bytes; what a worker keeps is its own and survives both.
// Label: waits
TEST(PsCodedServers, LoseNothingWhenThePrimaryIsKilled) {
  for (int seed = 0; seed < 3; ++seed) {
    RankProcesses processes(2);
    processes.start_all([&processes](int rank) {
      Server server(make_wire(), KeyTable(kCodedNet, 1),
                    {.address = "ipc://" + processes.folder() + "/" + std::to_string(rank),
                     .backup = rank == 0 ? "ipc://" + processes.folder() + "/1" : "",
                     .is_backup = rank == 1,
                     .clock = {.workers = 3},
                     .codec = PushCodec(CodecChoice::parse("one_bit"))});
      server.run();
      return std::string("ended");
    });
    const auto client_of = [&](int worker) {
      return std::make_unique<Client>(make_wire(), KeyTable(kCodedNet, 1),
                                      ClientOptions{.worker = worker,
                                                    .servers = {{.address = "ipc://" + processes.folder() + "/0",
                                                                 .backup = "ipc://" + processes.folder() + "/1"}},
                                                    .silence = milliseconds(30'000),
                                                    .retry = milliseconds(500)});
    };
    put_all(*client_of(-1), {zeros(kType.shape)});
    std::atomic<int> made{0};
    std::thread killer([&] {
      while (made < 3) std::this_thread::yield();
      std::this_thread::sleep_for(milliseconds(3 * seed));
      processes.kill(0);
    });
    const Pushed pushed = push_by_three("one_bit", KeyTable(kCodedNet, 1), 60, [&](int w) {
      ++made;
      return client_of(w);
    });
    killer.join();
    Client observer(make_wire(), KeyTable(kCodedNet, 1),
                    {.worker = -1, .servers = {{.address = "ipc://" + processes.folder() + "/1"}}});
    EXPECT_LT(distance(pull_all(observer)[0], pushed.given), 5e-3) << seed;
    EXPECT_GE(pushed.failovers, 1) << seed;
    observer.stop_servers();
    EXPECT_TRUE(processes.await(1, std::chrono::seconds(10)));
  }
}

// Workers of a strategy, all in this thread or each in one of its own; servers add up what they get.
class CodedWorkers {
 public:
  explicit CodedWorkers(const ServerRule& rule, int workers = 1)
      : rule_(rule),
        servers_("inproc", kCodedNet, 2,
                 {.optimizer = optimizer_named("sgd"), .clock = rule.clock(workers), .codec = PushCodec(rule.codec)}),
        observer_(servers_.client(-1)) {
    put_all(*observer_, {zeros(kType.shape)});
    for (int w = 0; w < workers; ++w) {
      auto& one = ones_.emplace_back();
      one.weight = zeros(kType.shape);
      one.weight.set_name("w").set_requires_grad();
      one.optimizer = optimizer_named("sgd")({{.parameters = {one.weight}}});
      one.optimizer->set_lr(1);
      one.worker = std::make_unique<ServerWorker>(std::move(make_thread_comms(1, {}).front()), "coded", rule_);
      one.worker->connect_by([this, w](const TrainedState&) { return servers_.client(w); });
      one.worker->begin({.weights = {{"w", one.weight}}, .rule = one.optimizer.get()});
    }
  }
  void step(int worker, const Tensor& gradient) {
    auto& one = ones_[static_cast<std::size_t>(worker)];
    one.worker->before_step(one.done);
    const NamedTensor gradients[] = {{"w", gradient}};
    GradientStep step{.step = one.done++, .weight = 1, .gradients = gradients};
    one.worker->exchange(step);
  }
  ServerWorker& operator[](int worker) { return *ones_[static_cast<std::size_t>(worker)].worker; }
  double told(int worker, const std::string& name) {
    for (const auto& [known, value] : (*this)[worker].counters()) {
      if (known == name) return value;
    }
    return -1;
  }
  // Descended at a rate of 1: what the servers hold is -Σ.
  double behind(const std::vector<double>& sum) {
    std::vector<double> minus(sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i) minus[i] = -sum[i];
    return distance(pull_all(*observer_)[0], minus);
  }

 private:
  struct One {
    Tensor weight{};
    std::unique_ptr<optim::Optimizer> optimizer{};
    std::unique_ptr<ServerWorker> worker{};
    std::int64_t done = 0;
  };
  ServerRule rule_;
  ServerThreads servers_;
  std::unique_ptr<Client> observer_;
  std::vector<One> ones_;
};

TEST(PsCodedWorkers, SettleWithoutLosingAnything) {
  CodedWorkers run({.codec = CodecChoice::parse("one_bit")});
  std::vector<double> given;
  for (int s = 0; s < 6; ++s) {
    add_to(given, drawn_values(s));
    run.step(0, drawn_values(s));
  }
  EXPECT_GT(run.behind(given), 0.1) << "control: some is kept";
  run[0].settle();
  EXPECT_LT(run.behind(given), 1e-3);
  EXPECT_EQ(run.told(0, "settles"), 1);
  EXPECT_EQ(run.told(0, "decoded_bytes"), 6 * 16 * 50 * 4);
  EXPECT_EQ(run.told(0, "coded_bytes"), 6 * 16 * (7 + 8));
  EXPECT_GT(run.told(0, "codec_error.w"), 0.1);
  run[0].settle();
  EXPECT_EQ(run.told(0, "settles"), 1) << "nothing is kept any more";
}

TEST(PsCodedWorkers, LeaveAloneWhatIsKeptInAStepThatIsSkipped) {
  CodedWorkers run({.codec = CodecChoice::parse("one_bit")});
  std::vector<double> given;
  for (int s = 0; s < 4; ++s) {
    Tensor gradient = drawn_values(s);
    if (s == 2) gradient.data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
    if (s != 2) add_to(given, gradient);
    run.step(0, gradient);
  }
  run[0].settle();
  EXPECT_LT(run.behind(given), 1e-3);
  EXPECT_EQ(run.told(0, "not_finite"), 1);
}

// Portions that another worker may have pushed are dropped by servers that have them: what is kept is no part of those.
TEST(PsCodedWorkers, PushWhatMayBeDroppedAsItIs) {
  CodedWorkers run({.codec = CodecChoice::parse("one_bit")});
  std::vector<double> given;
  for (int s = 0; s < 4; ++s) {
    const bool repeated = s == 2;
    run[0].take_portion(repeated ? 1 : s, repeated, 0);
    if (!repeated) add_to(given, drawn_values(s));
    run.step(0, drawn_values(s));
  }
  run[0].settle();
  EXPECT_LT(run.behind(given), 1e-3);
}

// Two workers in turn settle at the same step: a clock of its own, in which the servers take the mean of what they
// kept.
TEST(PsCodedWorkers, InTurnSettleBetweenTwoClocks) {
  CodedWorkers run({.bound = 0, .merge = Merge::mean, .codec = CodecChoice::parse("one_bit"), .in_turn = true}, 2);
  std::vector<double> given;
  for (int s = 0; s < 7; ++s) {
    std::vector<std::thread> both;
    for (int w = 0; w < 2; ++w) {
      add_to(given, drawn_values(100 * w + s), 0.5);
      both.emplace_back([&run, w, s] {
        run.step(w, drawn_values(100 * w + s));
        if (s == 3 || s == 6) run[w].settle();
      });
    }
    for (auto& one : both) one.join();
    const bool settled = s == 3 || s == 6;
    EXPECT_LT(run.behind(given), settled ? 1e-3 : 1e3) << s;
    EXPECT_GT(run.behind(given), settled ? 0 : 0.1) << "control: some is kept, " << s;
  }
}

}  // namespace
}  // namespace starling::dist::ps
