// One weird trick's three switches: all rows of a batch at once, ranks in turns, or shares of every rank's rows in
// rounds, for layers of which every rank has a part.
#include <gtest/gtest.h>

#include "dist/layout_nets.h"
#include "dist/transport_worlds.h"
#include "starling/dist/comm/faulty/faulty_comm.h"
#include "starling/dist/strategy/programs/planned_step.h"
#include "starling/graph/tracer.h"
#include "starling/ops/def/attrs/transfer.h"

namespace starling::parallel_nets {
namespace {

constexpr const char *kGather = "", *kTurns = "turns", *kShares = "shares";
constexpr std::int64_t kBatch = 16;

Plan trick(const char* rounds, int ranks, Net net = {"lenet"}, std::int64_t rows = kBatch) {
  return {.name = fmt::format("{}_{}_{}", net.name, *rounds ? rounds : "gather", ranks),
          .net = net,
          .mesh = {{"data", ranks}},
          .layout = {.preset = "one_weird_trick", .rounds = rounds},
          .rows = rows};
}

class OneWeirdTrick : public ::testing::TestWithParam<Plan> {};

TEST_P(OneWeirdTrick, TrainsAsOneProcess) {
  const auto comms = make_thread_comms(GetParam().ranks(), {.deadline = std::chrono::seconds(60)});
  run_ranks(comms, [&](Comm& comm) { expect_like_one(comm, GetParam()); });
}

// Dense layers of one block after those of another: what ends a round there needs all rounds of the block before.
const Net kBlocks{"gpt", {{"dropout", 0.0}}};

// Dropout between dense layers: noise of rows that come in shares is that of their places in the batch.
const Net kAlexnet{"alexnet", {{"dropout", 0.3}}};

INSTANTIATE_TEST_SUITE_P(Switches, OneWeirdTrick,
                         ::testing::Values(trick(kGather, 2), trick(kTurns, 2), trick(kShares, 2), trick(kTurns, 4),
                                           trick(kShares, 4), trick(kTurns, 2, kAlexnet, 8),
                                           trick(kShares, 2, kAlexnet, 8), trick(kShares, 3),
                                           trick(kTurns, 4, kBlocks, 8), trick(kShares, 4, kBlocks, 16),
                                           trick(kTurns, 3, kBlocks, 6)),
                         [](const auto& info) { return info.param.name; });

dist::PlannedStep planned(const Plan& plan) {
  Step step(plan.net, plan.rows, DType::f32, Norm::local);
  const graph::Graph traced = graph::trace([&](std::span<const Tensor> in) { return TensorList{step.step(in)}; },
                                           std::vector<Tensor>(step.batch.begin(), step.batch.end()))
                                  .graph;
  return plan_step(traced, plan.placed(), 0);
}

// Exchanges of rounds that a step has.
int exchanges_of_rounds(const Plan& plan) {
  int found = 0;
  for (const auto& one : planned(plan).exchanges) found += one.value.find(", round ") != std::string::npos;
  return found;
}

// Most rows of an activation of a dense layer.
std::int64_t most_rows(const Plan& plan) {
  std::int64_t most = 0;
  const graph::Graph local = planned(plan).local;
  for (const graph::Node& node : local.nodes()) {
    if (graph::is_op(node, "linear") && node.scope.str().find("fc") != std::string::npos)
      most = std::max(most, local.value(node.out[0]).type.shape[0]);
  }
  return most;
}

// Rows of what ranks have gathered for the first dense layer that are alive at once, in the order of the program that
// runs.
std::int64_t rows_alive(const graph::Graph& graph, std::int64_t width) {
  std::vector<int> last(graph.values().size(), -1);
  for (graph::NodeId id = 0; id < graph.size(); ++id) {
    for (graph::ValueId in : graph.node(id).in) last[static_cast<std::size_t>(in)] = id;
  }
  std::int64_t alive = 0, most = 0;
  std::map<graph::NodeId, std::int64_t> ending;
  for (graph::NodeId id = 0; id < graph.size(); ++id) {
    const graph::Node& node = graph.node(id);
    if (graph::is_op(node, "broadcast") || graph::is_op(node, "all_gather")) {
      const Shape& shape = graph.value(node.out[0]).type.shape;
      if (shape.rank() == 2 && shape[1] == width) {
        alive += shape[0];
        ending[last[static_cast<std::size_t>(node.out[0])]] += shape[0];
      }
    }
    most = std::max(most, alive);
    if (const auto found = ending.find(id); found != ending.end()) alive -= found->second;
  }
  return most;
}

// Law: activations of dense layers have P·b rows where all are gathered, b in turns and b in shares. Of what was
// gathered for them two rounds are there at most: one is used, one under way.
TEST(OneWeirdTrickLaws, ARoundHasTheRowsOfOneRank) {
  for (const int ranks : {2, 4}) {
    const std::int64_t b = kBatch / ranks;
    EXPECT_EQ(most_rows(trick(kGather, ranks)), kBatch);
    EXPECT_EQ(most_rows(trick(kTurns, ranks)), b);
    EXPECT_EQ(most_rows(trick(kShares, ranks)), b);
  }
  const auto alive = [](const Plan& plan) {
    std::int64_t rows = 0;
    const auto comms = make_thread_comms(plan.ranks(), {.deadline = std::chrono::seconds(60)});
    run_ranks(comms, [&](Comm& comm) {
      Step step(plan.net, plan.rows, DType::f32, Norm::local);
      const auto strategy = allreduce(testing::borrowed(comm), {.mesh = {plan.mesh}, .layout = plan.layout});
      strategy->begin(state_of(step));
      TensorList own;
      for (const Tensor& field : step.batch) own.push_back(testing::rows_of_tensor(field, strategy->rows(plan.rows)));
      CompiledFunction once([&](std::span<const Tensor> in) { return TensorList{step.step(in)}; },
                            {.threads = 1, .strategy = strategy});
      once.call({own.data(), own.size()}, GlobalRows{plan.rows});
      std::int64_t width = 0;
      for (const auto& [name, tensor] : step.net->named_parameters()) {
        if (name.find("fc1.weight") != std::string::npos) width = tensor.size(1);
      }
      if (comm.rank() == 0) rows = rows_alive(once.graph(), width);
    });
    return rows;
  };
  // Also where several layers are dense, and forward and back.
  EXPECT_EQ(exchanges_of_rounds(trick(kGather, 2, kAlexnet, 8)), 0);
  for (const char* rounds : {kTurns, kShares}) {
    EXPECT_EQ(most_rows(trick(rounds, 2, kAlexnet, 8)), 4) << rounds;
    EXPECT_GE(exchanges_of_rounds(trick(rounds, 2, kAlexnet, 8)), 2 * 3) << "rows, labels, gradients of " << rounds;
  }
  EXPECT_EQ(alive(trick(kGather, 4)), kBatch);
  for (const char* rounds : {kTurns, kShares}) {
    EXPECT_LE(alive(trick(rounds, 4)), 2 * kBatch / 4) << rounds;
    EXPECT_GE(alive(trick(rounds, 4)), kBatch / 4) << rounds;
  }
}

// Exchanges of rounds are among those that `starling inspect layout` tells.
TEST(OneWeirdTrickLaws, ExchangesOfRoundsAreTold) {
  std::map<std::string, std::int64_t> told;
  for (const auto& one : planned(trick(kTurns, 2)).exchanges) told[one.op] += one.sent;
  EXPECT_GT(told["broadcast"], 0);
  EXPECT_GT(told["reduce_to_root"], 0);
}

// Bytes that each rank sends in a step, by operation, counted where they leave.
std::vector<std::map<CommOp, std::uint64_t>> sent(const Plan& plan) {
  std::vector<std::map<CommOp, std::uint64_t>> bytes(static_cast<std::size_t>(plan.ranks()));
  const auto comms = dist::make_memory_comms(plan.ranks());
  run_ranks(comms, [&](Comm& comm) {
    Step step(plan.net, plan.rows, DType::f32, Norm::local);
    const auto strategy = allreduce(testing::borrowed(comm), {.mesh = {plan.mesh}, .layout = plan.layout});
    strategy->begin(state_of(step));
    TensorList own;
    for (const Tensor& field : step.batch) own.push_back(testing::rows_of_tensor(field, strategy->rows(plan.rows)));
    CompiledFunction forward(
        [&](std::span<const Tensor> in) { return TensorList{zoo::loss(step.recipe, *step.net, in)}; },
        {.threads = 1, .strategy = strategy});
    const auto before = [&](CommOp op) { return strategy->exchanged(op).bytes_sent; };
    std::map<CommOp, std::uint64_t> begin;
    for (const CommOp op : {CommOp::broadcast, CommOp::all_gather}) begin[op] = before(op);
    forward.call({own.data(), own.size()}, GlobalRows{plan.rows});
    for (const auto& [op, had] : begin) bytes[static_cast<std::size_t>(comm.rank())][op] = before(op) - had;
  });
  return bytes;
}

// Law: a round of turns has one sender, of its b rows to all others; in a round of shares each sends b/P, so that the
// busiest sends 1/P of that. What layers gather of each other along their outputs is the same with both.
TEST(OneWeirdTrickLaws, TheBusiestSenderOfSharesSendsOneOfPOfThatOfTurns) {
  for (const int ranks : {2, 4}) {
    const auto turns = sent(trick(kTurns, ranks)), shares = sent(trick(kShares, ranks));
    std::uint64_t of_turns = 0, of_shares = 0;
    for (std::size_t rank = 0; rank < turns.size(); ++rank) {
      of_turns = std::max(of_turns, turns[rank].at(CommOp::broadcast));
      const std::uint64_t rounds = shares[rank].at(CommOp::all_gather) - turns[rank].at(CommOp::all_gather);
      of_shares = std::max(of_shares, rounds / static_cast<std::uint64_t>(ranks));  // a round of them
      EXPECT_EQ(shares[rank].at(CommOp::broadcast), 0U);
    }
    EXPECT_GT(of_shares, 0U);
    EXPECT_EQ(of_shares * static_cast<std::uint64_t>(ranks), of_turns) << ranks;
  }
}

// A dense layer that takes its time after one that every rank has for itself; exchanges take time, too.
class SlowLayers {
 public:
  SlowLayers(Comm& comm, const char* rounds, bool overlap) {
    manual_seed(3);
    for (int i = 0; i < 2; ++i) {
      weights_.push_back(normal({16, 16}, {.stddev = 0.2}));
      weights_.back().set_name(i == 0 ? "conv.weight" : "fc1.weight").set_requires_grad();
    }
    strategy_ = allreduce(testing::borrowed(comm),
                          {.overlap = overlap, .layout = {.preset = "one_weird_trick", .rounds = rounds}});
    dist::TrainedState state;
    for (const Tensor& weight : weights_) state.weights.push_back({weight.name(), weight});
    strategy_->begin(state);
    step_ = std::make_unique<CompiledFunction>(
        [this](std::span<const Tensor> in) {
          const Tensor h = tanh(linear(in[0], weights_[0]));
          const Tensor y = delay(linear(h, weights_[1]), 10);
          const Tensor loss = mean(mul(y, y));
          TensorList all = gradients({&loss, 1}, weights_);
          all.push_back(loss);
          return all;
        },
        CompileOptions{.threads = 1, .strategy = strategy_, .overlap = overlap});
    step_->set_profiler(&profiler_);
  }

  // Milliseconds that gathers of rows spend inside of the dense layer, on the trace of this rank.
  double hidden_ms() {
    const Tensor x = full({4, 16}, 0.5);
    step_->call({&x, 1}, GlobalRows{8});
    std::int64_t hidden = 0;
    const auto events = profiler_.events();
    for (const auto& comm : events) {
      const std::string_view name = comm.name;
      if (name != "broadcast" && name != "all_gather") continue;
      for (const auto& compute : events) {
        if (std::string_view(compute.name) != "delay") continue;
        hidden += std::max<std::int64_t>(
            0, std::min(comm.end_ns, compute.end_ns) - std::max(comm.begin_ns, compute.begin_ns));
      }
    }
    return static_cast<double>(hidden) * 1e-6;
  }

 private:
  std::vector<Tensor> weights_;
  std::shared_ptr<dist::RankStrategy> strategy_;
  Profiler profiler_;
  std::unique_ptr<CompiledFunction> step_;
};

double hidden_ms(const char* rounds, bool overlap) {
  double hidden = 0;
  std::vector<std::unique_ptr<Comm>> comms;
  for (auto& comm : dist::make_memory_comms(2))
    comms.push_back(make_faulty(std::move(comm), dist::FaultPlan{.latency = std::chrono::microseconds(10'000)}));
  run_ranks(comms, [&](Comm& comm) {
    SlowLayers layers(comm, rounds, overlap);
    const double own = layers.hidden_ms();
    if (comm.rank() == 0) hidden = own;
  });
  return hidden;
}

// While the rows of one round are computed those of the next are exchanged. Control: nothing is with overlap off, nor
// where all rows are gathered at once.
TEST(OneWeirdTrickLaws, RoundsAreExchangedWhileOthersAreComputed) {
  for (const char* rounds : {kTurns, kShares}) {
    double most = 0;  // of a few tries: a busy machine holds threads up
    for (int i = 0; i < 10 && most <= 4; ++i) most = std::max(most, hidden_ms(rounds, true));
    EXPECT_GT(most, 4) << rounds;
    EXPECT_EQ(hidden_ms(rounds, false), 0) << rounds;
  }
  EXPECT_EQ(hidden_ms(kGather, true), 0);
}

}  // namespace
}  // namespace starling::parallel_nets
