// Late updates of whole networks, over thread ranks with irregular exchange times and over shared memory, where other
// ranks read the gradients in place.
#include <gtest/gtest.h>

#include <mutex>

#include "dist/shared_worlds.h"
#include "dist/strategy_testing.h"
#include "runtime/step_testing.h"
#include "starling/dist/strategy/allreduce.h"
#include "starling/graph/next_forward.h"

namespace starling::dist {
namespace {

using testing::Bench;
using testing::borrowed;
using testing::rows_of_tensor;

constexpr int kSteps = 6;
constexpr std::int64_t kBatch = 4;

struct Outcome {
  std::vector<double> losses{};
  std::string hash{};
  bool turned = false;
};

Outcome train(const Comms& comms, const char* net, bool next_forward) {
  std::mutex mutex;
  Outcome outcome;
  run_ranks(comms, [&](Comm& comm) {
    Bench bench(net, kBatch, DType::f32);
    const auto strategy = std::make_shared<AllReduce>(
        borrowed(comm), AllReduceOptions{.next_forward = next_forward, .bucket_mb = 0.02, .threads = 1});
    auto step = compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y).detach(); },
                        {.disable = {"shared_updates"}, .threads = 1, .strategy = strategy});
    const Piece own = strategy->rows(kBatch);
    const Tensor fields[] = {rows_of_tensor(bench.x, own), rows_of_tensor(bench.y, own)};
    Outcome made;
    for (int s = 0; s < kSteps; ++s) made.losses.push_back(step.call(fields, GlobalRows{kBatch})[0].item());
    strategy->finish();
    std::vector<NamedTensor> state;
    for (auto& [name, tensor] : bench.net.named_parameters()) state.push_back({name, tensor});
    for (auto& [name, tensor] : bench.net.named_buffers()) state.push_back({name, tensor});
    for (auto& [name, tensor] : bench.opt.state()) state.push_back({name, tensor});
    made.hash = train::weights_hash(state);
    made.turned = step.graph().targets.contains(std::string(graph::kDeferredUpdates));
    const std::scoped_lock lock(mutex);
    if (comm.rank() == 0) outcome = made;
  });
  return outcome;
}

// Every third operation of one rank is slow to start, every second of the other slow to arrive.
Comms uneven_ranks() {
  return wrap(make_thread_comms(2), [](std::unique_ptr<Comm> inner) {
    const bool first = inner->rank() == 0;
    return make_faulty(std::move(inner), first ? FaultPlan{.slow_start = std::chrono::microseconds(3000), .every = 3}
                                               : FaultPlan{.latency = std::chrono::microseconds(2000), .every = 2});
  });
}

class NextForwardNets : public ::testing::TestWithParam<const char*> {};

TEST_P(NextForwardNets, EndWithTheSameBitsWheneverExchangesArrive) {
  const Outcome usual = train(uneven_ranks(), GetParam(), false), late = train(uneven_ranks(), GetParam(), true);
  EXPECT_TRUE(late.turned);
  EXPECT_EQ(late.losses, usual.losses);
  EXPECT_EQ(late.hash, usual.hash);
}

TEST_P(NextForwardNets, EndWithTheSameBitsInSharedMemory) {
  const Outcome usual = train(shared_comms(2), GetParam(), false), late = train(shared_comms(2), GetParam(), true);
  EXPECT_TRUE(late.turned);
  EXPECT_EQ(late.losses, usual.losses);
  EXPECT_EQ(late.hash, usual.hash);
}

INSTANTIATE_TEST_SUITE_P(Nets, NextForwardNets, ::testing::Values("lenet", "mlp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace starling::dist
