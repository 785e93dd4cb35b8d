// The sum of all portions when workers die at any moment: the weights on the servers count them.
#include <gtest/gtest.h>

#include <random>

#include "dist/ps/ps_testing.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/dist/strategy/servers/server_worker.h"
#include "starling/ops/api/creation.h"
#include "starling/train/workers/portion_queue.h"

namespace starling::train {
namespace {

using namespace std::chrono_literals;
namespace ps = dist::ps;

constexpr std::int64_t kPortions = 120;
constexpr int kWorkers = 3;

std::vector<ps::ServedTensor> counts() {
  return {{.name = "a", .type = {DType::f32, {kPortions}}}, {.name = "b", .type = {DType::f32, {kPortions}}}};
}

struct Way {
  std::int64_t n_push = 1;
  bool tells_portions = true;   // to the servers
  bool done_after_push = true;  // to the leader
};

// One worker, whose gradient of portion p is 1 at p: servers without an optimizer add it.
class Counting {
 public:
  Counting(const ps::ServerThreads& servers, int worker, const Way& way) : way_(way), worker_(worker) {
    for (const auto& tensor : counts()) {
      weights_.push_back({tensor.name, zeros({kPortions})});
      gradients_.push_back({tensor.name, zeros({kPortions})});
      weights_.back().tensor.set_name(tensor.name).set_requires_grad();
    }
    optimizer_ = ps::optimizer_named("sgd")({{.parameters = {weights_[0].tensor, weights_[1].tensor}}});
    strategy_ = std::make_unique<dist::ServerWorker>(std::move(make_thread_comms(1, {}).front()), "counting",
                                                     dist::ServerRule{.n_push = way.n_push});
    strategy_->connect_by([&](const dist::TrainedState&) { return servers.client(worker); });
    strategy_->begin({.weights = weights_, .rule = optimizer_.get()});
  }

  void take(const PortionAnswer& answer, PortionQueue& queue) {
    if (way_.tells_portions) strategy_->take_portion(answer.portion, answer.alone != 0, answer.pauses);
    acknowledge(queue);
    portion_ = answer.portion;
    strategy_->before_step(steps_);
    for (const auto& [name, gradient] : gradients_) {
      copy_into(gradient, zeros({kPortions}));
      gradient.data<float>()[portion_] = 1;
    }
  }
  void push() {
    dist::GradientStep step{.step = steps_++, .weight = 1, .gradients = gradients_};
    strategy_->exchange(step);
    notes_.push_back({.portion = portion_, .loss = 1, .weight = 1, .rows = 1});
  }
  // Dies between the tensors of a push.
  void push_half() {
    if (way_.n_push > 1) return;
    ps::PushOptions how{.clock = steps_};
    if (way_.tells_portions) how.portions = {portion_};
    strategy_->client().push(1, gradients_[1].tensor, how);
    strategy_->client().wait_all();
  }
  void acknowledge(PortionQueue& queue) {
    if (way_.done_after_push && strategy_->keeps_back()) return;
    for (const PortionNote& note : std::exchange(notes_, {})) queue.done(worker_, note);
  }
  void settle(PortionQueue& queue) {
    strategy_->settle();
    acknowledge(queue);
    queue.settled(worker_);
  }

 private:
  Way way_;
  int worker_;
  std::vector<NamedTensor> weights_, gradients_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<dist::ServerWorker> strategy_;
  std::vector<PortionNote> notes_;
  std::int64_t portion_ = -1, steps_ = 0;
};

// A run of workers that die or are taken for dead at every moment there is.
class PortionLaw : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ps::has_wire()) GTEST_SKIP() << "built without ZeroMQ";
  }

  // How often each portion counts on each weight.
  static std::vector<Tensor> run(const Way& way, std::uint32_t seed) {
    const ps::ServerThreads servers("inproc", counts(), 2, {.clock = {.workers = kWorkers, .bound = ps::kUnbounded}});
    const auto leader = servers.client(-1);
    ps::put_all(*leader, {zeros({kPortions}), zeros({kPortions})});
    PortionQueue queue({.workers = kWorkers});
    queue.open(
        {.grid = data::PortionGrid({.samples = kPortions, .batch = kWorkers, .pieces = kWorkers}), .limit = kPortions});
    queue.allow(kPortions);
    std::vector<std::unique_ptr<Counting>> workers(kWorkers);
    std::mt19937 random(seed);
    for (int rounds = 0; queue.done_count() < kPortions; ++rounds) {
      if (rounds > 100 * kPortions) {
        ADD_FAILURE() << "expected an end, got " << queue.done_count() << " portions";
        break;
      }
      const auto w = static_cast<int>(random() % kWorkers);
      auto& worker = workers[static_cast<std::size_t>(w)];
      if (!worker) worker = std::make_unique<Counting>(servers, w, way);
      const auto lose = [&] {
        queue.lose(w, "killed");
        leader->retire(w);
        queue.retired(w);
      };
      const PortionAnswer answer = queue.next(w);
      if (answer.kind != PortionAnswer::Kind::portion) {
        worker->settle(queue);
        continue;
      }
      worker->take(answer, queue);
      switch (random() % 12) {
        case 0: break;  // dies before it pushes
        case 1: worker->push_half(); break;
        case 2: worker->push(); break;    // dies before it says so
        case 3: lose(); [[fallthrough]];  // silent for a while, and alive
        default:
          worker->push();
          worker->acknowledge(queue);
          continue;
      }
      worker.reset();
      lose();
    }
    return ps::pull_all(*leader);
  }

  static std::pair<float, float> range(const std::vector<Tensor>& counted) {
    std::pair<float, float> found{1, 1};
    for (const Tensor& one : counted) {
      for (std::int64_t i = 0; i < one.numel(); ++i)
        found = {std::min(found.first, one.data<float>()[i]), std::max(found.second, one.data<float>()[i])};
    }
    return found;
  }
};

TEST_F(PortionLaw, AcknowledgedPushesAreAppliedOnceToEveryKeyThroughAnyDeath) {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    for (const std::int64_t n_push : {1, 3}) {
      const auto [least, most] = range(run({.n_push = n_push}, seed));
      EXPECT_EQ(least, 1) << "n_push " << n_push << ", seed " << seed;
      EXPECT_EQ(most, 1) << "n_push " << n_push << ", seed " << seed;
    }
  }
}

TEST_F(PortionLaw, ControlWithoutTheirNumbersSomeCountTwice) {
  EXPECT_GT(range(run({.tells_portions = false}, 1)).second, 1);
}
TEST_F(PortionLaw, ControlAcknowledgedBeforeTheyArePushedSomeAreLost) {
  EXPECT_EQ(range(run({.n_push = 3, .done_after_push = false}, 1)).first, 0);
}

}  // namespace
}  // namespace starling::train
