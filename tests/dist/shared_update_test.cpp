#include <gtest/gtest.h>

#include "dist/shared_worlds.h"
#include "dist/strategy_testing.h"
#include "runtime/step_testing.h"
#include "starling/dist/strategy/allreduce.h"

// Updates that ranks divide by rows give the result of one process.
namespace starling::dist {
namespace {

using testing::Bench;
using testing::bit_equal;
using testing::borrowed;
using testing::relative_l2;
using testing::rows_of_tensor;

constexpr int kSteps = 3;

std::vector<Tensor> trained_alone(const char* net, std::int64_t batch) {
  Bench bench(net, batch, DType::f64);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y); }, {.threads = 1});
  for (int i = 0; i < kSteps; ++i) step(bench.x, bench.y);
  auto all = bench.net.parameters();
  for (const auto& [name, tensor] : bench.opt.state()) all.push_back(tensor);
  return all;
}

int count(const graph::Graph& graph, const char* op) {
  int found = 0;
  for (const auto& node : graph.nodes()) found += is_op(node, op);
  return found;
}

// Parameters and optimizer state of every rank, and the number of its divided updates.
struct Ended {
  std::vector<std::vector<Tensor>> ranks;
  int shared = 0;
};

Ended trained(const char* net, std::int64_t batch, Comms comms, const std::set<std::string>& disable = {}) {
  Ended ended{.ranks = std::vector<std::vector<Tensor>>(comms.size())};
  run_ranks(comms, [&](Comm& comm) {
    Bench bench(net, batch, DType::f64);
    const auto strategy = allreduce(borrowed(comm));
    TrainedState state{.rule = &bench.opt};
    for (const auto& [name, tensor] : bench.net.named_parameters()) state.weights.push_back({name, tensor});
    for (const auto& [name, tensor] : bench.opt.state()) state.optimizer.push_back({name, tensor});
    strategy->begin(state);
    auto step = compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y); },
                        {.disable = disable, .threads = 1, .strategy = strategy});
    const Piece own = strategy->rows(batch);
    const Tensor fields[] = {rows_of_tensor(bench.x, own), rows_of_tensor(bench.y, own)};
    for (int i = 0; i < kSteps; ++i) step.call(fields, GlobalRows{batch});
    auto& all = ended.ranks[static_cast<std::size_t>(comm.rank())];
    for (const auto* part : {&state.weights, &state.optimizer}) {
      for (const auto& [name, tensor] : *part) all.push_back(tensor);
    }
    if (comm.rank() == 0) ended.shared = count(step.graph(), "gather_rows");
  });
  return ended;
}

void expect_end_of_one(const char* net, std::int64_t batch, const Ended& ended) {
  const auto expected = trained_alone(net, batch);
  for (const auto& rank : ended.ranks) {
    ASSERT_EQ(rank.size(), expected.size());
    for (std::size_t i = 0; i < rank.size(); ++i) {
      EXPECT_LE(relative_l2(rank[i], expected[i]), 1e-11) << "tensor " << i;
      EXPECT_TRUE(bit_equal(rank[i], ended.ranks[0][i])) << "tensor " << i << " differs from rank 0";
    }
  }
}

TEST(SharedUpdate, GivesTheWeightsOfOneProcess) {
  const Ended ended = trained("mlp", 6, make_thread_comms(2));
  EXPECT_EQ(ended.shared, 2) << "the two large layers";
  expect_end_of_one("mlp", 6, ended);
}

TEST(SharedUpdate, GivesTheWeightsOfOneProcessInSharedMemoryWithUnevenRows) {
  const Ended ended = trained("mlp", 5, wrap(shared_comms(3, 256 << 20), make_checking));
  EXPECT_EQ(ended.shared, 2);
  expect_end_of_one("mlp", 5, ended);
}

TEST(SharedUpdate, GivesTheWeightsOfOneProcessWithARankWithoutRows) {
  const Ended ended = trained("mlp", 2, make_thread_comms(3));
  EXPECT_EQ(ended.shared, 2);
  expect_end_of_one("mlp", 2, ended);
}

TEST(SharedUpdate, DoesNotHappenWhenSwitchedOff) {
  const Ended ended = trained("mlp", 6, make_thread_comms(2), {"shared_updates"});
  EXPECT_EQ(ended.shared, 0);
  expect_end_of_one("mlp", 6, ended);
}

TEST(SharedUpdate, MovesTheTrainedStateToWhereTheOthersCanReadIt) {
  run_ranks(shared_comms(2), [&](Comm& comm) {
    const Tensor weight = from_doubles(std::vector<double>{1, 2, 3}, {3});
    const void* before = weight.raw();
    allreduce(borrowed(comm))->begin({.weights = {{"w", weight}}});
    EXPECT_NE(weight.raw(), before);
    EXPECT_EQ(weight.to_vector(), (std::vector<double>{1, 2, 3}));
  });
}

}  // namespace
}  // namespace starling::dist
