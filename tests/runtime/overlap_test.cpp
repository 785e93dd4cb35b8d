#include <gtest/gtest.h>

#include <chrono>

#include "runtime/step_testing.h"
#include "starling/dist/comm/faulty/faulty_comm.h"

namespace starling::runtime {
namespace {

using namespace std::chrono_literals;

// Two ranks reduce one value over a link with 5 ms of latency while they multiply matrices that do not need it.
class Overlap {
 public:
  explicit Overlap(bool schedule) {
    const auto slow = [](std::unique_ptr<Comm> comm) {
      return make_faulty(std::move(comm), dist::FaultPlan{.latency = 5ms});
    };
    CompileOptions options{
        .strategy = data_parallel({.workers = 2, .threads_per_worker = 1, .checked = false, .decorate = slow})};
    if (!schedule) options.disable = {"schedule"};
    manual_seed(1);
    weight_ = normal({640, 640}, {.stddev = 0.04});
    weight_.set_name("weight");
    x_ = normal({128, 640});
    step_ = std::make_unique<CompiledFunction>([this](std::span<const Tensor> in) { return body(in[0]); }, options);
    step_->set_profiler(&profiler_);
    for (int i = 0; i < 3; ++i) step_->call({&x_, 1});
  }

  void run() {
    profiler_.clear();
    step_->call({&x_, 1});
  }

  const Profiler& profiler() const { return profiler_; }

 private:
  // The early sum is partial over the batch, so it must be reduced; the chain of products is not.
  TensorList body(const Tensor& x) {
    const Tensor early = exp(mul(sum(x), 1e-6));
    Tensor y = x;
    for (int i = 0; i < 24; ++i) y = matmul(y, weight_);
    return {add(mul(early, 1.0), mul(max(y, {.axes = {1}}), 0.0))};
  }

  Tensor weight_, x_;
  Profiler profiler_;
  std::unique_ptr<CompiledFunction> step_;
};

// Time during which a rank's compute and communication overlap.
std::int64_t hidden_ns(const std::vector<Profiler::Event>& events) {
  std::int64_t hidden = 0;
  for (const auto& comm : events) {
    if (comm.lane != static_cast<int>(graph::Lane::comm)) continue;
    for (const auto& compute : events) {
      if (compute.rank != comm.rank || compute.lane == comm.lane) continue;
      hidden = std::max(hidden, std::min(comm.end_ns, compute.end_ns) - std::max(comm.begin_ns, compute.begin_ns));
    }
  }
  return hidden;
}

// Of several steps one must show it: on a starved machine a rank may sleep through a collective.
TEST(Overlap, CommunicationRunsBesideIndependentCompute) {
  Overlap overlap(true);
  std::int64_t hidden = 0;
  for (int i = 0; i < 50 && hidden <= 0; ++i) {
    overlap.run();
    hidden = hidden_ns(overlap.profiler().events());
  }
  EXPECT_GT(hidden, 0) << "no compute instruction ran while a collective was on its way";
}

TEST(Overlap, WithoutTheSchedulePassTheLaneIsNotUsed) {
  Overlap plain(false);
  plain.run();
  for (const auto& event : plain.profiler().events()) EXPECT_EQ(event.lane, static_cast<int>(graph::Lane::compute));
}

}  // namespace
}  // namespace starling::runtime
