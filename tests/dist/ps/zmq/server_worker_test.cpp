#include "starling/dist/strategy/server_worker.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dist/ps/ps_testing.h"
#include "starling/dist/comm/threads/threads_comm.h"

namespace starling::dist::ps {
namespace {

const std::vector<ServedTensor> kNet{{.name = "w", .type = {DType::f32, {64}}}};

// Worker 1 of two, which has begun and made no step.
class LateWorker {
 public:
  LateWorker(const ServerThreads& servers, const ServerRule& rule)
      : weight_(zeros({64})), worker_(std::move(make_thread_comms(1, {}).front()), "late", rule) {
    weight_.set_name("w").set_requires_grad();
    optimizer_ = optimizer_named("sgd")({{.parameters = {weight_}}});
    worker_.connect_by([&](const TrainedState&) { return servers.client(1); });
    worker_.begin({.weights = {{"w", weight_}}, .rule = optimizer_.get()});
  }
  ServerWorker& operator*() { return worker_; }

 private:
  Tensor weight_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  ServerWorker worker_;
};

// A run that saves early pauses workers which have not had a portion yet.
TEST(ServerWorker, ThatSettlesBeforeItsFirstStepHoldsUpNoOther) {
  const ServerThreads servers("inproc", kNet, 2, {.clock = {.workers = 2, .bound = 1}});
  const auto fast = servers.client(0, {.deadline = milliseconds(20'000)});
  put_all(*fast, {zeros({64})});
  LateWorker late(servers, {.bound = 1});
  const Tensor one = values_like({DType::f32, {64}}, 1), into = empty({64});
  fast->wait(fast->push_pull(0, one, into, {.clock = 0}));
  const auto blocked = fast->pull(0, into, 2);
  EXPECT_FALSE(fast->done(blocked)) << "control: a worker that has begun is waited for";
  (*late).settle();
  fast->wait(blocked);
  (*late).before_step(2);
  const auto told = (*late).counters();
  const auto fetches = std::ranges::find(told, "fetches", &LawCounter::name);
  ASSERT_NE(fetches, told.end());
  EXPECT_EQ(fetches->value, 1) << "it fetches before its first step";
}

}  // namespace
}  // namespace starling::dist::ps
