// State that every rank stores a piece of (distribute.zero): that training is that of one trainer, what is stored, what
// is gathered when, and that checkpoints hold whole tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/reduce.h"
#include "starling/optim/adam.h"
#include "starling/train/job/job.h"
#include "starling/train/ranks/link.h"
#include "train/pieces_testing.h"

namespace starling::train {
namespace {

using testing::expect_like;
using testing::Keep;
using testing::Outcome;
using testing::points;
using testing::Recipe;
using testing::splits;
using testing::uneven_net;

TEST(Zero, TrainsLikeOneTrainer) {
  for (const std::int64_t accumulate : {1, 3}) {
    Recipe recipe;
    recipe.options.accumulate = accumulate;
    recipe.options.clip_norm = 0.5;
    recipe.options.epochs = accumulate == 1 ? 2 : 3;
    const Outcome one = recipe.run()[0];
    for (const int ranks : {2, 3}) {
      for (const int zero : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{} ranks, zero {}, {} batches a step", ranks, zero, accumulate));
        recipe.ranks = ranks;
        recipe.zero = zero;
        for (const Outcome& some : recipe.run()) {
          expect_like(some, one, 1e-5, 1e-4);
          EXPECT_EQ(some.metrics.at("accuracy"), one.metrics.at("accuracy"));
        }
      }
    }
  }
}

// Points of which one row is no number.
std::shared_ptr<const Dataset> poisoned(std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<Tensor> fields{empty({count, 8}, DType::f32), empty({count}, DType::i64)};
  points(count)->gather(rows, fields);
  fields[0].data<float>()[8 * (count / 2)] = std::numeric_limits<float>::quiet_NaN();
  return std::make_shared<TensorDataset>(std::move(fields));
}

TEST(Zero, SkipsAndScalesAsOneTrainerDoes) {
  for (const Precision precision : {Precision::f32, Precision::bf16, Precision::f16}) {
    Recipe recipe;
    recipe.options.clip_value = 0.05;
    recipe.options.non_finite = NonFinite::skip;
    recipe.options.precision = precision;
    recipe.options.steps = 8;  // an epoch
    recipe.data = splits(poisoned(103), points(40, 5));
    const Outcome one = recipe.run()[0];
    EXPECT_EQ(one.result.summary.skipped, 1);
    recipe.ranks = 2;
    for (const int zero : {1, 3}) {
      recipe.zero = zero;
      SCOPED_TRACE(fmt::format("zero {}, {}", zero, to_string(precision)));
      const Outcome some = recipe.run()[1];
      EXPECT_EQ(some.result.summary.skipped, 1);
      expect_like(some, one, precision == Precision::f32 ? 1e-5 : 1e-2, precision == Precision::f32 ? 1e-4 : 0.05);
    }
  }
}

// Eight batches, of which seven make a step and the last, of fewer rows, one of its own: its program is traced between
// steps. Gradients are stored once.
TEST(Zero, ProgramsOfOtherRowsAddToTheSameGradients) {
  Recipe recipe;
  recipe.options.accumulate = 7;
  const Outcome one = recipe.run()[0];
  double weights = 0;
  for (const auto& values : one.weights) weights += 4.0 * static_cast<double>(values.size());
  recipe.ranks = 2;
  for (const int zero : {0, 1, 2, 3}) {
    SCOPED_TRACE(fmt::format("zero {}", zero));
    recipe.zero = zero;
    const Outcome some = recipe.run()[0];
    expect_like(some, one, 1e-5, 1e-4);
    double stored = 0;
    for (const auto& rank : some.result.summary.ranks) {
      const auto bytes = [&](const char* what) { return rank.counters.at(what).get<double>(); };
      EXPECT_EQ(bytes("gradient_bytes") == bytes("weight_bytes"), zero != 2) << bytes("gradient_bytes");
      stored += bytes("gradient_bytes");
    }
    EXPECT_LT(stored, (zero >= 2 ? 1.2 : 2.1) * weights);  // with zero vectors are on both
  }
}

void fill_state(const optim::Optimizer& optimizer, double value) {
  for (const auto& [name, tensor] : optimizer.state()) {
    if (tensor.rank() >= 1) copy_into(tensor, full(tensor.shape(), value, tensor.dtype()));
  }
}

TEST(Zero, AllRanksBeginWithTheOptimizerStateOfTheFirst) {
  Recipe recipe;
  recipe.options.steps = 2;
  recipe.touch = [](optim::Optimizer& optimizer, int rank) { fill_state(optimizer, rank == 0 ? 0.01 : 0.5); };
  const Outcome one = recipe.run()[0];
  recipe.ranks = 2;
  for (const int zero : {0, 1, 3}) {
    SCOPED_TRACE(fmt::format("zero {}", zero));
    recipe.zero = zero;
    for (const Outcome& some : recipe.run()) expect_like(some, one, 1e-5, 1e-4);
  }
}

// The pieces go with the strategy: what is left of the optimizer's state must not be taken for zeros.
TEST(Zero, AnOptimizerOfAnEarlierStrategyIsRefused) {
  for (const int zero : {0, 1}) {
    auto comms = make_thread_comms(2, {.deadline = std::chrono::milliseconds(60'000)});
    std::string told;
    const auto fit_twice = [&](Comm& comm) {
      auto net = uneven_net();
      optim::Adam optimizer(net.parameters(), {.lr = 0.01});
      TrainerOptions options = testing::quiet({.epochs = 1, .batch = 13});
      for (int run = 0; run < 2; ++run) {
        options.strategy = allreduce(std::shared_ptr<Comm>(&comm, [](Comm*) {}), {.zero = zero});
        Trainer(net, optimizer, classify(), options).fit(splits(points(26)));
      }
    };
    try {
      run_ranks(comms, fit_twice);
    } catch (const Error& error) {
      told = error.what();
    }
    EXPECT_EQ(told.find("whose pieces went with the strategy of an earlier run") != std::string::npos, zero > 0)
        << told;
  }
}

// Spoils a weight, once, when the run has ended and all weights are whole.
class SpoilAtTheEnd final : public Callback {
 public:
  std::string name() const override { return "spoil"; }
  void end(starling::Run& run) override {
    if (std::exchange(done_, true)) return;
    const Tensor bias = run.net().parameters()[1];
    copy_into(bias, full(bias.shape(), std::numeric_limits<double>::infinity(), bias.dtype()));
  }

 private:
  bool done_ = false;
};

TEST(Zero, GoesBackFromTheLastCheckpoint) {
  const testing::TestFolder folders("zero-back");
  const auto run = [&](int ranks, int zero) {
    Recipe recipe{.ranks = ranks, .zero = zero};
    recipe.options.steps = 5;
    recipe.options.non_finite = NonFinite::rollback;
    recipe.options.folder = folders.path() / fmt::format("{}-{}", ranks, zero);
    recipe.add = [](Trainer& trainer, int) {
      trainer.add(std::make_shared<SpoilAtTheEnd>());
      trainer.add(checkpoints({.every_steps = 2}));
    };
    return recipe.run();
  };
  const Outcome one = run(1, 0)[0];
  EXPECT_EQ(one.result.summary.rollbacks, 1);
  for (const int zero : {1, 3}) {
    SCOPED_TRACE(fmt::format("zero {}", zero));
    for (const Outcome& some : run(2, zero)) {
      EXPECT_EQ(some.result.summary.rollbacks, 1);
      expect_like(some, one, 1e-5, 1e-4);
    }
  }
}

// Another handle of a weight in pieces has no memory by which it would be known as that weight, nor as any other.
TEST(Zero, HandlesWithoutMemoryAreNotTakenForAnotherWeight) {
  Recipe recipe;
  recipe.options.steps = 2;
  recipe.net = [] {
    manual_seed(3);
    nn::Sequential net;
    net.add("a", nn::Linear({.in = 8, .out = 8})).add("b", nn::Linear({.in = 8, .out = 8}));
    return net;
  };
  recipe.objective = own_objective([](nn::Module& net, std::span<const Tensor> fields) {
    const Tensor logits = net(fields[0]);
    const Tensor held = net.parameters()[2].detach();
    return Objective::Outputs{.loss = add(cross_entropy(logits, fields[1]), mean(mul(held, held))),
                              .prediction = logits};
  });
  const Outcome one = recipe.run()[0];
  recipe.ranks = 2;
  recipe.zero = 1;
  expect_like(recipe.run()[0], one, 1e-5, 1e-4);
  recipe.zero = 3;
  std::string told;
  try {
    recipe.run();
  } catch (const Error& error) {
    told = error.what();
  }
  EXPECT_NE(told.find("to have memory here"), std::string::npos) << told;
}

// Layers whose vectors are few beside their matrices.
nn::Sequential wide_net() {
  manual_seed(3);
  nn::Sequential net;
  net.add("fc1", nn::Linear({.in = 8, .out = 256})).add("relu", nn::Relu());
  net.add("fc2", nn::Linear({.in = 256, .out = 256})).add("tanh", nn::Tanh());
  net.add("fc3", nn::Linear({.in = 256, .out = 4}));
  return net;
}

// Law (f32 Adam; weights, gradients that are added up, two moments): 16 bytes a weight without zero, then 8 + 8/P,
// 4 + 12/P and 16/P.
TEST(Zero, StoresItsShareOfTheState) {
  std::int64_t weights = 0;
  for (const auto& parameter : wide_net().parameters()) weights += parameter.numel();
  const auto psi = static_cast<double>(weights);
  for (const int ranks : {2, 4}) {
    for (const int zero : {0, 1, 2, 3}) {
      Recipe recipe{.ranks = ranks, .zero = zero, .options = {.epochs = 1, .batch = 8, .accumulate = 2}};
      recipe.options.steps = 2;
      recipe.net = wide_net;
      const FitResult result = recipe.run()[0].result;
      const double p = ranks;
      const double law[] = {16, 8 + 8 / p, 4 + 12 / p, 16 / p};
      for (const auto& rank : result.summary.ranks) {
        const auto bytes = [&](const char* what) { return rank.counters.at(what).get<double>(); };
        const double all = bytes("weight_bytes") + bytes("gradient_bytes") + bytes("optimizer_bytes");
        EXPECT_NEAR(all / psi, law[zero], 0.05 * law[zero]) << ranks << " ranks, zero " << zero;
      }
    }
  }
}

bool gathers(const graph::Node& node) {
  return graph::is_op(node, "all_gather") || graph::is_op(node, "all_gather_many");
}

// Gathers of which a later node still reads results, at most, in the order of the program.
int most_gathered(const graph::Graph& graph) {
  std::map<graph::NodeId, graph::NodeId> last;
  for (graph::NodeId id = 0; id < graph.size(); ++id) {
    for (graph::ValueId in : graph.node(id).in) {
      if (gathers(graph.maker(in))) last[graph.value(in).node] = id;
    }
  }
  int most = 0;
  for (graph::NodeId id = 0; id < graph.size(); ++id) {
    const auto alive = [&](const auto& one) { return one.first < id && id <= one.second; };
    most = std::max(most, static_cast<int>(std::count_if(last.begin(), last.end(), alive)));
  }
  return most;
}

struct Counts {
  int gathers = 0, scatters = 0, alive = 0;
  std::size_t tensors = 0;  // most of one gather
};

Counts counts_of(int zero, double bucket_mb) {
  Counts counts;
  Recipe recipe{.ranks = 2, .zero = zero, .bucket_mb = bucket_mb, .options = {.epochs = 1, .batch = 8}};
  recipe.options.steps = 1;
  recipe.net = [] {
    manual_seed(3);
    nn::Sequential net;
    net.add("in", nn::Linear({.in = 8, .out = 32}));
    for (const char* name : {"a", "b", "c", "d"}) net.add(name, nn::Linear({.in = 32, .out = 32}));
    net.add("out", nn::Linear({.in = 32, .out = 4}));
    return net;
  };
  recipe.add = [&](Trainer& trainer, int rank) {
    if (rank > 0) return;
    trainer.add(after_step([&](starling::Run& run) {
      for (const graph::Node& node : run.program().graph().nodes()) {
        counts.gathers += gathers(node);
        if (gathers(node)) counts.tensors = std::max(counts.tensors, node.out.size());
        counts.scatters += graph::is_op(node, "reduce_scatter") || graph::is_op(node, "reduce_scatter_many");
      }
      counts.alive = most_gathered(run.program().graph());
    }));
  };
  recipe.run();
  return counts;
}

// Six matrices. Each is scattered once; weights are gathered after their update or, stored in pieces, twice a step: but
// the last layers, which are still there when the way back begins, and the first, whose input needs no gradient.
TEST(Zero, GathersWeightsBeforeTheirUseAndDropsThemAfterwards) {
  const Counts none = counts_of(0, 0);
  EXPECT_EQ(none.scatters + none.gathers, 0);
  for (const int zero : {1, 2}) {
    const Counts some = counts_of(zero, 0);
    EXPECT_EQ(some.scatters, 6);
    EXPECT_EQ(some.gathers, 6);
  }
  const Counts three = counts_of(3, 0);
  EXPECT_EQ(three.scatters, 6);
  EXPECT_GE(three.gathers, 6 + 3);
  EXPECT_LE(three.gathers, 6 + 5);
  EXPECT_LE(three.alive, 2);
  EXPECT_EQ(three.tensors, 1U);
}

TEST(Zero, GathersAndScattersInBuckets) {
  for (const int zero : {1, 2}) {
    const Counts some = counts_of(zero, 25);
    EXPECT_EQ(some.scatters, 1);
    EXPECT_EQ(some.gathers, 1);
  }
  const Counts pairs = counts_of(3, 2.0 * 4096 / (1 << 20));  // two of the larger matrices
  EXPECT_EQ(pairs.tensors, 2U);
  EXPECT_GE(pairs.gathers, 3 + 1);
  EXPECT_LE(pairs.gathers, 3 + 3);
  EXPECT_LE(pairs.alive, 2);
  EXPECT_EQ(counts_of(3, 25).gathers, 1);
}

// Many layers of few rows each, of which some do not divide by the ranks.
nn::Sequential deep_net() {
  manual_seed(3);
  nn::Sequential net;
  net.add("in", nn::Linear({.in = 8, .out = 12}));
  for (int i = 0; i < 20; ++i) net.add(fmt::format("h{}", i), nn::Linear({.in = 12 + i % 2, .out = 13 - i % 2}));
  net.add("out", nn::Linear({.in = 12, .out = 4}));
  return net;
}

TEST(Zero, BucketsGiveTheBitsOfSeparateExchanges) {
  for (const int ranks : {2, 3}) {
    for (const int zero : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} ranks, zero {}", ranks, zero));
      Recipe recipe{.ranks = ranks, .zero = zero};
      recipe.net = deep_net;
      recipe.options.steps = 4;
      recipe.options.clip_norm = zero == 2 ? 0.5 : 0;
      recipe.options.accumulate = zero == 2 ? 2 : 1;
      const Outcome joined = recipe.run()[0];
      recipe.bucket_mb = 0;
      const Outcome separate = recipe.run()[0];
      EXPECT_EQ(joined.losses, separate.losses);
      EXPECT_EQ(joined.weights, separate.weights);
      EXPECT_EQ(joined.scattered.bytes_sent, separate.scattered.bytes_sent);
      // With weights in pieces, what is still there from the forward use is not gathered again for the backward one.
      if (zero == 3)
        EXPECT_LT(joined.gathered.bytes_sent, separate.gathered.bytes_sent);
      else
        EXPECT_EQ(joined.gathered.bytes_sent, separate.gathered.bytes_sent);
      EXPECT_EQ(separate.scattered.calls, 22 * (zero == 2 ? 8 : 4));
      EXPECT_LE(joined.scattered.calls, 2 * (zero == 2 ? 8 : 4));
      EXPECT_LT(joined.gathered.calls, separate.gathered.calls / 4);
    }
  }
}

// Matrices alone, whose rows divide by the ranks.
nn::Sequential even_net() {
  manual_seed(3);
  nn::Sequential net;
  net.add("a", nn::Linear({.in = 8, .out = 24, .bias = false}));
  net.add("b", nn::Linear({.in = 24, .out = 48, .bias = false}));
  net.add("c", nn::Linear({.in = 48, .out = 12, .bias = false}));
  return net;
}

// Law, of n bytes of weights on P ranks, bytes that each rank sends in a step: levels 1 to 3 scatter (P-1)/P n of
// gradients, and gather (P-1)/P n of weights: once after the update, or, in pieces, before the forward use and the
// backward one, but for the first layer, whose input needs no gradient, and the last, which is still there then.
TEST(Zero, MovesTheBytesOfTheLaw) {
  const std::uint64_t a = 4 * 8 * 24, b = 4 * 24 * 48, c = 4 * 48 * 12;
  for (const int ranks : {2, 4}) {
    const auto p = static_cast<std::uint64_t>(ranks);
    const auto sent = [&](int zero, std::int64_t steps, double bucket_mb) {
      Recipe recipe{.ranks = ranks, .zero = zero, .bucket_mb = bucket_mb, .options = {.epochs = 9, .batch = 8}};
      recipe.options.steps = steps;
      recipe.net = even_net;
      const Outcome own = recipe.run()[1];
      return std::pair(own.scattered.bytes_sent, own.gathered.bytes_sent);
    };
    const auto notes = sent(0, 4, 0).second - sent(0, 2, 0).second;  // of two steps: what plain all-reduce gathers
    for (const int zero : {0, 1, 2, 3}) {
      for (const double bucket_mb : {0.0, 25.0}) {
        SCOPED_TRACE(fmt::format("{} ranks, zero {}, buckets of {} MB", ranks, zero, bucket_mb));
        const auto two = sent(zero, 2, bucket_mb), four = sent(zero, 4, bucket_mb);
        const std::uint64_t gathers = zero == 0 ? 0 : zero < 3 ? a + b + c : bucket_mb > 0 ? a + b + c : a + b + c + b;
        EXPECT_EQ(four.first - two.first, zero == 0 ? 0 : 2 * (a + b + c) * (p - 1) / p);
        EXPECT_EQ(four.second - two.second - notes, 2 * gathers * (p - 1) / p);
      }
    }
  }
}

TEST(Zero, RefusesEagerReadsOfWeightsInPieces) {
  Recipe recipe{.ranks = 2, .zero = 3};
  recipe.options.steps = 1;
  std::string told;
  recipe.add = [&](Trainer& trainer, int rank) {
    trainer.add(after_step([&, rank](starling::Run& run) {
      try {
        run.net().parameters()[0].to_vector();
      } catch (const Error& error) {
        if (rank == 0) told = error.what();
      }
    }));
  };
  recipe.run();
  EXPECT_NE(told.find("expected 'fc1.weight' to have memory here"), std::string::npos) << told;
}

struct Setting {
  int ranks, zero;
};

TEST(Zero, ResumesFromCheckpointsOfAnyOtherSetting) {
  const std::vector<Setting> all = {{1, 0}, {2, 1}, {3, 2}, {4, 3}};
  const auto run = [&](const Setting& setting, const std::filesystem::path& folder, std::int64_t steps,
                       std::map<std::string, std::vector<double>>& state) {
    Recipe recipe{.ranks = setting.ranks, .zero = setting.zero};
    recipe.options.folder = folder;
    recipe.options.epochs = 9;
    recipe.options.steps = steps;
    recipe.add = [&](Trainer& trainer, int) {
      trainer.add(checkpoints({.every_steps = 2}));
      trainer.add(std::make_shared<Keep>(state));
    };
    return recipe.run()[0].losses;
  };
  const testing::TestFolder folders("zero");
  std::map<std::string, std::vector<double>> unused;
  const std::vector<double> undisturbed = run({1, 0}, folders.path() / "one", 7, unused);
  for (const Setting& from : all) {
    const auto folder = folders.path() / fmt::format("from-{}-{}", from.ranks, from.zero);
    std::map<std::string, std::vector<double>> saved;
    run(from, folder, 4, saved);
    ASSERT_TRUE(saved.contains("fc2.weight.m") || saved.size() > 12) << saved.size();
    for (const Setting& to : all) {
      SCOPED_TRACE(fmt::format("{} ranks zero {} to {} ranks zero {}", from.ranks, from.zero, to.ranks, to.zero));
      const auto copy = folders.path() / fmt::format("{}-{}", folder.filename().string(), to.ranks * 10 + to.zero);
      std::filesystem::copy(folder, copy, std::filesystem::copy_options::recursive);
      std::map<std::string, std::vector<double>> loaded;
      run(to, copy, 4, loaded);
      EXPECT_EQ(loaded, saved);
      const std::vector<double> losses = run(to, copy, 7, unused);
      ASSERT_EQ(losses.size(), 3U);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(losses[i], undisturbed[4 + i], 1e-4);
    }
  }
}

std::string refusal(const std::string& distribute, const std::string& more = "") {
  try {
    read_job(
        ConfigNode::parse("model: {name: mlp}\ndistribute: {workers: 2, " + distribute + "}\n" + more, "job.yaml"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Zero, JobsThatCannotBeAreRefused) {
  EXPECT_EQ(refusal("zero: 3"), "");
  EXPECT_NE(refusal("zero: 4").find("zero"), std::string::npos);
  EXPECT_NE(refusal("zero: 1, strategy: local_sgd").find("zero"), std::string::npos);
  EXPECT_EQ(refusal("zero: 1, deterministic: true"), "");
  EXPECT_NE(refusal("zero: 2, codec: fp16").find("expected zero: 0 with a codec"), std::string::npos);
  EXPECT_NE(refusal("zero: 3", "train: {average: {decay: 0.9}}\n").find("at most zero: 2"), std::string::npos);
  EXPECT_EQ(refusal("zero: 2", "train: {average: {decay: 0.9}}\n"), "");
}

}  // namespace
}  // namespace starling::train
