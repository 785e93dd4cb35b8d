#include "starling/dist/strategy/servers/server_worker.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dist/ps/ps_testing.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/embedding.h"
#include "starling/ops/api/reduce.h"
#include "starling/runtime/compile.h"

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

// Worker 1 was taken for lost, so that nobody waits for it, and comes back with a portion at clock 4.
void expect_waited_for_again(bool alone) {
  const ServerThreads servers("inproc", kNet, 2, {.clock = {.workers = 2, .bound = 1}});
  const auto fast = servers.client(0, {.deadline = milliseconds(20'000)});
  put_all(*fast, {zeros({64})});
  LateWorker late(servers, {.bound = 1});
  fast->retire(1);
  const Tensor one = full({64}, 1.0), into = empty({64}), other = empty({64});
  const auto step = [&](std::int64_t clock) { return fast->push_pull(0, one, into, {.clock = clock}); };
  for (int clock = 0; clock < 4; ++clock) fast->wait(step(clock));
  (*late).take_portion(3, alone, 0);
  (*late).before_step(4);
  fast->wait(step(4));
  const auto blocked = step(5);
  fast->wait(fast->pull(0, other, 0));  // answered after it, if at all
  EXPECT_EQ(fast->done(blocked), !alone) << "weights of clock 6, with worker 1 at 4";
  const NamedTensor gradients[] = {{"w", one}};
  GradientStep made{.step = 4, .weight = 1, .gradients = gradients};
  (*late).exchange(made);
  fast->wait(blocked);
  fast->wait(fast->pull(0, other, 6));
  EXPECT_EQ(other.data<float>()[0], 7) << "its push counts";
}

TEST(ServerWorker, ThatWasTakenForLostIsWaitedForAgainOnceItComesBack) { expect_waited_for_again(true); }
TEST(ServerWorker, ControlWithoutJoiningNobodyWaitsForIt) { expect_waited_for_again(false); }

// One worker of two layers, whose gradients are the number of the step, from 1 on.
class Rhythms {
 public:
  explicit Rhythms(const ServerRule& rule)
      : servers_("inproc", kLayers, 2), observer_(servers_.client(-1)), rule_(rule) {
    put_all(*observer_, {zeros({64}), zeros({8})});
    for (const auto& layer : kLayers) {
      weights_.push_back({layer.name, zeros(layer.type.shape)});
      weights_.back().tensor.set_name(layer.name).set_requires_grad();
    }
    optimizer_ = optimizer_named("sgd")({{.parameters = {weights_[0].tensor, weights_[1].tensor}}});
    worker_ = std::make_unique<ServerWorker>(std::move(make_thread_comms(1, {}).front()), "nexus", rule_);
    worker_->connect_by([&](const TrainedState&) { return servers_.client(0); });
    worker_->begin({.weights = weights_, .rule = optimizer_.get()});
  }
  void steps(int count) {
    for (int s = 0; s < count; ++s) {
      worker_->before_step(done_);
      const auto value = static_cast<double>(done_ + 1);
      const NamedTensor gradients[] = {{"fc.weight", full({64}, value)}, {"fc.bias", full({8}, value)}};
      GradientStep step{.step = done_++, .weight = 1, .gradients = gradients};
      worker_->exchange(step);
    }
  }
  // A value that the servers hold of a layer: without an optimizer the sum of what was pushed.
  double held(std::size_t layer) { return pull_all(*observer_)[layer].data<float>()[5]; }
  double told(const std::string& name) const {
    const auto all = worker_->counters();
    const auto found = std::ranges::find(all, name, &LawCounter::name);
    return found == all.end() ? -1 : found->value;
  }
  ServerWorker& worker() { return *worker_; }

 private:
  inline static const std::vector<ServedTensor> kLayers{{.name = "fc.weight", .type = {DType::f32, {64}}},
                                                        {.name = "fc.bias", .type = {DType::f32, {8}}}};
  ServerThreads servers_;
  std::unique_ptr<Client> observer_;
  ServerRule rule_;
  std::vector<NamedTensor> weights_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<ServerWorker> worker_;
  std::int64_t done_ = 0;
};

TEST(ServerWorker, PushesEachLayerAtItsRhythmAndLosesNothing) {
  Rhythms run({.layers = {{.name = "*.weight", .every = 4}}});
  run.steps(10);
  EXPECT_EQ(run.held(0), 36) << "of the first 8 steps";
  EXPECT_EQ(run.held(1), 55);
  EXPECT_TRUE(run.worker().keeps_back());
  run.worker().settle();
  EXPECT_FALSE(run.worker().keeps_back());
  EXPECT_EQ(run.held(0), 55);
  EXPECT_EQ(run.told("pushes.fc.weight"), 3) << "10 / 4, and what is left";
  EXPECT_EQ(run.told("pushes.fc.bias"), 10);
}

TEST(ServerWorker, ControlOfOneRhythmPushesEveryLayerAsOften) {
  Rhythms run({.n_push = 4, .layers = {{.name = "*", .every = 1}}});
  run.steps(10);
  EXPECT_EQ(run.held(0), 55);
  EXPECT_EQ(run.told("pushes.fc.weight"), 10);
  EXPECT_EQ(run.told("pushes.fc.bias"), 10);
}

TEST(ServerWorker, RefusesAPatternThatNoLayerHas) {
  EXPECT_THROW(Rhythms({.layers = {{.name = "conv*", .every = 4}}}), Error);
}

// One worker whose programs read a table, and another client that changes it.
class TableWorker {
 public:
  TableWorker()
      : servers_("inproc", kTable, 2, {.clock = {.workers = 2}}),
        other_(servers_.client(1)),
        table_(zeros({kRows, 4})),
        worker_(std::make_shared<ServerWorker>(std::move(make_thread_comms(1, {}).front()), "async", ServerRule{})) {
    put_all(*other_, {zeros({kRows, 4})});
    table_.set_name("table").set_requires_grad();
    optimizer_ = optimizer_named("sgd")({{.parameters = {table_}}});
    worker_->connect_by([&](const TrainedState&) { return servers_.client(0); });
    worker_->begin({.weights = {{"table", table_}}, .rule = optimizer_.get()});
  }
  // Adds 1 to all of the table on the servers.
  void change() { other_->wait(other_->push(0, full({kRows, 4}, 1.0))); }
  void begin_step() {
    worker_->take_fields(fields_);
    worker_->before_step(step_++);
  }
  CompiledFunction program(const std::function<Tensor(const Tensor& table, std::span<const Tensor> in)>& f) {
    return {[this, f](std::span<const Tensor> in) { return TensorList{sum(f(table_, in))}; }, {.strategy = worker_}};
  }
  double run(CompiledFunction& program) { return program.call(fields_)[0].item(); }
  float held(std::int64_t row) const { return table_.data<float>()[row * 4]; }
  double rows_fetched() const {
    const auto all = worker_->counters();
    return std::ranges::find(all, "rows_fetched", &LawCounter::name)->value;
  }

  static constexpr std::int64_t kRows = 256;

 private:
  inline static const std::vector<ServedTensor> kTable{
      {.name = "table", .type = {DType::f32, {kRows, 4}}, .by_rows = true}};
  ServerThreads servers_;
  std::unique_ptr<Client> other_;
  Tensor table_;
  std::shared_ptr<ServerWorker> worker_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<Tensor> fields_{from_host<std::int64_t>(std::vector<std::int64_t>{3, 5, 3}, {3}),
                              from_host<std::int64_t>(std::vector<std::int64_t>{7, 200}, {2})};
  std::int64_t step_ = 0;
};

// The program is new in a step that has fetched the rows of another one.
void expect_fresh(TableWorker& run, CompiledFunction& other, std::int64_t values) {
  CompiledFunction rows = run.program(
      [](const Tensor& table, std::span<const Tensor> in) { return embedding(in[0], table, {.sparse = true}); });
  run.begin_step();
  EXPECT_EQ(run.run(rows), 0) << "the first fetch is of all";
  run.change();
  run.begin_step();
  EXPECT_EQ(run.run(rows), 3 * 4) << "of three ids";
  EXPECT_EQ(run.held(5), 1);
  EXPECT_EQ(run.held(200), 0) << "control: rows that no program reads stay as they were";
  EXPECT_EQ(run.rows_fetched(), 2);
  EXPECT_EQ(run.run(other), static_cast<double>(values)) << "of the servers' table";
  run.change();
  run.begin_step();
  EXPECT_EQ(run.run(other), static_cast<double>(2 * values));
  EXPECT_EQ(run.rows_fetched(), 2) << "whole from now on";
}

TEST(ServerWorker, FetchesATableWholeOnceAProgramReadsAllOfIt) {
  TableWorker run;
  CompiledFunction all = run.program([](const Tensor& table, std::span<const Tensor>) { return table; });
  expect_fresh(run, all, TableWorker::kRows * 4);
}

TEST(ServerWorker, FetchesATableWholeOnceAProgramReadsRowsOfAnotherInput) {
  TableWorker run;
  CompiledFunction others = run.program(
      [](const Tensor& table, std::span<const Tensor> in) { return embedding(in[1], table, {.sparse = true}); });
  expect_fresh(run, others, 2 * 4);
}

}  // namespace
}  // namespace starling::dist::ps
