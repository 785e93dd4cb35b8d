// Workers in turn that hear of the pauses of their run at different moments: none may wait for a clock that another
// does not make.
#include <gtest/gtest.h>

#include <thread>

#include "dist/ps/ps_testing.h"
#include "starling/base/error.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/dist/strategy/servers/server_worker.h"
#include "starling/ops/api/creation.h"
#include "starling/train/workers/portion_queue.h"
#include "starling/train/workers/worker_pool.h"

namespace starling::train {
namespace {

using namespace std::chrono_literals;
namespace ps = dist::ps;
using Kind = PortionAnswer::Kind;

constexpr std::int64_t kValues = 64;
const std::vector<ps::ServedTensor> kNet{{.name = "w", .type = {DType::f32, {kValues}}}};

Tensor gradient_of(std::int64_t portion) {
  Tensor made = empty({kValues});
  for (std::int64_t i = 0; i < kValues; ++i)
    made.data<float>()[i] = static_cast<float>((portion * 31 + i * 17) % 13) - 6.5F;
  return made;
}

// A worker, and what its loader has been told so far.
class Worker {
 public:
  Worker(const ps::ServerThreads& servers, int number, const dist::ServerRule& rule)
      : number_(number), weight_(zeros({kValues})) {
    weight_.set_name("w").set_requires_grad();
    optimizer_ = ps::optimizer_named("sgd")({{.parameters = {weight_}}});
    strategy_ = std::make_unique<dist::ServerWorker>(std::move(make_thread_comms(1, {}).front()), "in turn", rule);
    strategy_->connect_by(
        [&servers, number](const dist::TrainedState&) { return servers.client(number, {.deadline = 4s}); });
    strategy_->begin({.weights = {{"w", weight_}}, .rule = optimizer_.get()});
  }

  // Asks ahead, until there is a portion or nothing.
  Kind ask(PortionQueue& queue) {
    while (true) {
      const PortionAnswer answer = queue.next(number_);
      if (answer.kind != Kind::later) told_.push_back(answer);
      if (answer.kind != Kind::pause) return answer.kind;
    }
  }

  // The training thread makes what the loader was told.
  void run(PortionQueue& queue) {
    for (const PortionAnswer& answer : std::exchange(told_, {})) {
      if (answer.kind == Kind::pause) {
        strategy_->settle();
        queue.settled(number_);
        continue;
      }
      strategy_->take_portion(answer.portion, answer.alone != 0, answer.pauses);
      strategy_->before_step(answer.clock);
      const Tensor gradient = gradient_of(answer.portion);
      const NamedTensor gradients[] = {{"w", gradient}};
      dist::GradientStep step{.step = answer.clock, .weight = 1, .gradients = gradients};
      strategy_->exchange(step);
      queue.done(number_, {.portion = answer.portion, .loss = 1, .weight = 1, .rows = 1});
    }
  }

 private:
  int number_;
  Tensor weight_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<dist::ServerWorker> strategy_;
  std::vector<PortionAnswer> told_;
};

class WorkersInTurn : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ps::has_wire()) GTEST_SKIP() << "built without ZeroMQ";
  }
};

// Worker 0 reads ahead up to what is allowed and is told to pause there, round after round; worker 1 asks when more is
// allowed already. Both end in one pause, with all gradients on the servers, which add them up.
void expect_an_end(const dist::ServerRule& rule) {
  constexpr std::int64_t kSteps = 6;
  const ps::ServerThreads servers("inproc", kNet, 1, {.clock = rule.clock(2), .codec = ps::PushCodec(rule.codec)});
  const auto leader = servers.client(-1);
  ps::put_all(*leader, {zeros({kValues})});
  PortionQueue queue({.workers = 2, .in_turn = true});
  queue.open({.grid = data::PortionGrid({.samples = 100, .batch = 2, .pieces = 2}), .limit = 100});
  Worker first(servers, 0, rule), second(servers, 1, rule);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    queue.allow(2 * (step + 1));
    EXPECT_EQ(first.ask(queue), Kind::portion);
    EXPECT_EQ(first.ask(queue), Kind::later) << "it has been told to pause";
    queue.allow(2 * (step + 2));
    EXPECT_EQ(second.ask(queue), Kind::portion);
  }
  EXPECT_FALSE(queue.pause(0ms));
  for (Worker* one : {&first, &second}) EXPECT_EQ(one->ask(queue), Kind::later);
  std::vector<std::thread> both;
  for (Worker* one : {&first, &second}) {
    both.emplace_back([&queue, one] {
      try {
        one->run(queue);
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  EXPECT_TRUE(queue.pause(3s)) << "still at work: " << ::testing::PrintToString(queue.busy());
  for (auto& one : both) one.join();
  EXPECT_EQ(queue.done_count(), 2 * kSteps);
  const Tensor held = ps::pull_all(*leader)[0];
  for (std::int64_t i = 0; i < kValues; ++i) {
    double sum = 0;
    for (std::int64_t p = 0; p < 2 * kSteps; ++p) sum += static_cast<double>(gradient_of(p).data<float>()[i]);
    ASSERT_NEAR(static_cast<double>(held.data<float>()[i]), sum, 1e-3) << i;
  }
}

TEST_F(WorkersInTurn, PauseTogetherWhoeverHearsOfItFirst) { expect_an_end({.bound = 0, .in_turn = true}); }

TEST_F(WorkersInTurn, SettleEquallyOftenWithACodec) {
  expect_an_end({.bound = 0, .codec = dist::CodecChoice::parse("one_bit"), .in_turn = true});
}

TEST_F(WorkersInTurn, SettleEquallyOftenWithACodecAndMeans) {
  expect_an_end({.bound = 0, .merge = ps::Merge::mean, .codec = dist::CodecChoice::parse("one_bit"), .in_turn = true});
}

// A worker that has heard of the end makes no further clock, and another waits for one.
TEST_F(WorkersInTurn, WaitForNobodyOnceTheRunHasEnded) {
  const ps::ServerThreads servers("inproc", kNet, 1, {.clock = {.workers = 2, .bound = 0}});
  Tensor weight = zeros({kValues});
  weight.set_name("w").set_requires_grad();
  const auto optimizer = ps::optimizer_named("sgd")({{.parameters = {weight}}});
  WorkerPoolOptions how;
  how.strategy = "ssp";
  how.rule = {.bound = 0, .in_turn = true};
  how.workers = 2;
  how.wire = servers.wire;
  how.address = "inproc://workers-in-turn";
  how.connect = [&](const dist::TrainedState&) { return servers.client(-1); };
  WorkerPool pool(std::move(how));
  pool.begin({.grid = {.samples = 100, .batch = 2},
              .epochs = 1,
              .state = {.weights = {{"w", weight}}, .rule = optimizer.get()}});
  const auto worker = servers.client(0, {.deadline = 20s, .silence = 2s});
  const auto other = servers.client(1);
  const Tensor into = empty({kValues});
  worker->tick(0);
  worker->wait_all();
  const auto blocked = worker->pull(0, into, 1);
  other->wait(other->pull(0, empty({kValues}), 0));  // answered after it, if at all
  EXPECT_FALSE(worker->done(blocked)) << "control: it waits for worker 1";
  pool.close();
  EXPECT_NO_THROW(worker->wait(blocked));
}

}  // namespace
}  // namespace starling::train
