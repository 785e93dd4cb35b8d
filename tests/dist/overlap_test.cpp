// Reductions overlapped with the backward pass, over a link with latency, with kernels that sleep, so that a busy
// machine does not disturb the timing.
#include <gtest/gtest.h>

#include <chrono>

#include "runtime/step_testing.h"
#include "starling/dist/comm/faulty/faulty_comm.h"
#include "starling/ops/def/attrs/transfer.h"

namespace starling::dist {
namespace {

using namespace std::chrono_literals;

constexpr int kLayers = 5;
constexpr double kSleep = 20;  // ms of each layer's backward pass and of each exchange

// Layers whose gradients are large enough for their own buckets; their backward passes sleep.
class SleepingNet {
 public:
  explicit SleepingNet(CompileOptions options) {
    const auto slow = [](std::unique_ptr<Comm> comm) {
      return make_faulty(std::move(comm), FaultPlan{.latency = std::chrono::microseconds(20'000)});
    };
    options.strategy = data_parallel({.workers = 2, .threads_per_worker = 1, .checked = false, .decorate = slow});
    manual_seed(1);
    for (int i = 0; i < kLayers; ++i) {
      weights_.push_back(normal({kWidth, kWidth}, {.stddev = 0.04}));
      weights_.back().set_name("weight" + std::to_string(i)).set_requires_grad();
    }
    x_ = normal({2, kWidth});
    opt_ = std::make_unique<optim::Sgd>(weights_, optim::SgdOptions{.lr = 0.01, .momentum = 0.9});
    step_ = std::make_unique<CompiledFunction>([this](std::span<const Tensor> in) { return step(in[0]); }, options);
    step_->set_profiler(&profiler_);
    step_->call({&x_, 1});
  }

  // The shortest of three steps.
  double best_ms() {
    double best = step_ms();
    for (int i = 1; i < 3; ++i) best = std::min(best, step_ms());
    return best;
  }

  double step_ms() {
    profiler_.clear();
    const auto start = std::chrono::steady_clock::now();
    step_->call({&x_, 1});
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  // Communication time during the ranks' backward sleeps, summed over all ranks.
  double hidden_ms() const {
    std::int64_t hidden = 0;
    const auto events = profiler_.events();
    for (const auto& comm : events) {
      if (comm.lane != static_cast<int>(graph::Lane::comm)) continue;
      for (const auto& compute : events) {
        if (compute.rank != comm.rank || std::string_view(compute.name) != "delay") continue;
        hidden += std::max<std::int64_t>(
            0, std::min(comm.end_ns, compute.end_ns) - std::max(comm.begin_ns, compute.begin_ns));
      }
    }
    return static_cast<double>(hidden) * 1e-6;
  }

 private:
  static constexpr std::int64_t kWidth = 520;  // 520² floats are more than a megabyte

  TensorList step(const Tensor& x) {
    Tensor h = x;
    for (const auto& weight : weights_) {
      h = tanh(matmul(h, weight));
      h.register_hook([](const Tensor& g) { return delay(g, kSleep); });
    }
    const Tensor loss = sum(mul(h, h));
    loss.backward();
    opt_->step();
    return {loss.detach()};
  }

  std::vector<Tensor> weights_;
  Tensor x_;
  std::unique_ptr<optim::Sgd> opt_;
  Profiler profiler_;
  std::unique_ptr<CompiledFunction> step_;
};

// Label: waits
TEST(Overlap, AStepTakesTheLongerOfComputeAndCommunicationNotTheirSum) {
  SleepingNet hidden({}), plain({.overlap = false});
  const double compute = kLayers * kSleep, exchanges = kLayers * kSleep;
  // About 130 of 220 ms: all but the last exchange are hidden. Load lengthens steps, so the best one counts.
  double with = 1e9, without = 1e9;
  for (int round = 0; round < 12 && (round < 2 || with > without * 0.8); ++round) {
    with = std::min(with, hidden.step_ms());
    without = std::min(without, plain.step_ms());
  }
  EXPECT_GE(without, compute + exchanges) << "nothing hides anything when it is off";
  EXPECT_LE(with, without * 0.8);
}

// Label: waits
TEST(Overlap, ShowsInTheTraceAndIsLostWhenSwitchedOff) {
  SleepingNet hidden({}), plain({.overlap = false});
  hidden.best_ms();
  plain.best_ms();
  // On both ranks all exchanges but the last overlap the next layer's sleep.
  EXPECT_GE(hidden.hidden_ms(), 2 * (kLayers - 2) * kSleep * 0.8);
  EXPECT_EQ(plain.hidden_ms(), 0);
}

// Control: reduced in the order of the updates, first layers first, nothing could start early.
// Label: waits
TEST(Overlap, IsLostWithoutTheOrderOfReadiness) {
  SleepingNet hidden({}), disordered({.disable = {"buckets"}});
  double ordered = 1e9, other = 1e9;
  for (int round = 0; round < 12 && (round < 2 || other < ordered * 1.25); ++round) {
    ordered = std::min(ordered, hidden.step_ms());
    other = std::min(other, disordered.step_ms());
  }
  EXPECT_GE(other, ordered * 1.25);
}

}  // namespace
}  // namespace starling::dist
