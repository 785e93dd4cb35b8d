// Reductions and updates that end during the next step's forward pass: the same bits as without, and no reader sees
// unfinished weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "dist/deep_net.h"
#include "starling/runtime/execution/deferred_error.h"

namespace starling::dist {
namespace {

using testing::DeepNet;
using testing::DeepRecipe;
using testing::on_ranks;
using testing::Rule;

struct Outcome {
  std::vector<double> losses{};
  std::string hash{};
  bool turned = false;
  bool operator==(const Outcome&) const = default;
};

// Final state of all ranks.
Outcome train(const DeepRecipe& recipe, AllReduceOptions options, int world = 2) {
  std::mutex mutex;
  std::vector<Outcome> all;
  on_ranks(checking_backend().make(world), recipe, options, [&](DeepNet& net, AllReduce& strategy) {
    Outcome own;
    for (int s = 0; s < recipe.steps; ++s) own.losses.push_back(net.step(s));
    strategy.finish();
    own.hash = net.hash();
    own.turned = net.is_turned();
    const std::scoped_lock lock(mutex);
    all.push_back(own);
  });
  for (const auto& one : all) EXPECT_EQ(one, all[0]);
  return all[0];
}

void expect_same_bits(const DeepRecipe& recipe, int world = 2) {
  const Outcome usual = train(recipe, DeepNet::options(false), world),
                late = train(recipe, DeepNet::options(true), world);
  EXPECT_FALSE(usual.turned);
  EXPECT_TRUE(late.turned);
  EXPECT_EQ(late.losses, usual.losses);
  EXPECT_EQ(late.hash, usual.hash);
}

TEST(NextForward, MomentumAndARateThatChangesEndWithTheSameBits) { expect_same_bits({.rule = Rule::sgd}); }
TEST(NextForward, AdamEndsWithTheSameBits) { expect_same_bits({.rule = Rule::adam}); }
TEST(NextForward, ThreeRanksEndWithTheSameBits) { expect_same_bits({.rule = Rule::adam, .steps = 6, .layers = 9}, 3); }
TEST(NextForward, AccumulatedGradientsEndWithTheSameBits) {
  expect_same_bits({.rule = Rule::adam, .accumulate = true});
}

TEST(NextForward, DeterministicShardsEndWithTheSameBits) {
  AllReduceOptions usual = DeepNet::options(false), late = DeepNet::options(true);
  usual.deterministic = late.deterministic = true;
  usual.shards = late.shards = 3;
  const Outcome want = train({.steps = 6}, usual), got = train({.steps = 6}, late);
  EXPECT_TRUE(got.turned);
  EXPECT_EQ(got.losses, want.losses);
  EXPECT_EQ(got.hash, want.hash);
}

// The norm is a result, so its gradients are waited for.
TEST(NextForward, ClippingByTheNormOfAllGradientsEndsWithTheSameBits) {
  const DeepRecipe recipe{.rule = Rule::adam, .clip = true};
  const Outcome usual = train(recipe, DeepNet::options(false)), late = train(recipe, DeepNet::options(true));
  EXPECT_EQ(late.losses, usual.losses);
  EXPECT_EQ(late.hash, usual.hash);
}

// A step that returns every gradient leaves no update to be late.
TEST(NextForward, StepsThatReturnTheirGradientsHaveNoDeferredUpdates) {
  const DeepRecipe recipe{.steps = 3, .gradients = true};
  const Outcome usual = train(recipe, DeepNet::options(false)), asked = train(recipe, DeepNet::options(true));
  EXPECT_FALSE(asked.turned);
  EXPECT_EQ(asked, usual);
}

TEST(NextForward, NeedsOverlap) {
  const auto comms = make_thread_comms(1);
  EXPECT_THROW(AllReduce(testing::borrowed(*comms[0]), {.overlap = false, .next_forward = true}), Error);
}

// Positions where the step assigns each variable and where the forward pass first reads it.
struct Places {
  std::map<std::string, graph::NodeId> assigned, read;
};
Places places_of(const graph::Graph& graph) {
  Places places;
  const auto users = graph.users();
  for (graph::NodeId id = 0; id < graph.size(); ++id) {
    const graph::Node& node = graph.node(id);
    const auto name = [&] { return graph.variables[static_cast<std::size_t>(source_index(node))].name; };
    if (is_op(node, "assign")) places.assigned[name()] = id;
    // The last read of a weight is the step's own; the update's comes before.
    if (is_op(node, "variable") && !users[static_cast<std::size_t>(node.out[0])].empty())
      places.read[name()] = users[static_cast<std::size_t>(node.out[0])].front();
  }
  return places;
}

TEST(NextForward, PutsEveryUpdateRightBeforeTheFirstUse) {
  on_ranks(make_thread_comms(2), {.layers = 5}, DeepNet::options(true), [&](DeepNet& net, AllReduce&) {
    net.step(0);
    Places places = places_of(net.graph());
    for (int i = 0; i < 5; ++i) {
      const std::string own = "weight" + std::to_string(i), next = "weight" + std::to_string(i + 1);
      EXPECT_LT(places.assigned.at(own), places.read.at(own)) << own;
      if (i == 4) break;
      EXPECT_GT(places.assigned.at(next), places.read.at(own)) << next << " is updated too early";
    }
  });
}

// Name of the weights that are updated from a value.
std::string updated_by(const graph::Graph& graph, graph::ValueId value) {
  const auto users = graph.users();
  std::vector<graph::ValueId> open{value};
  while (!open.empty()) {
    const graph::ValueId now = open.back();
    open.pop_back();
    for (graph::NodeId user : users[static_cast<std::size_t>(now)]) {
      const graph::Node& node = graph.node(user);
      open.insert(open.end(), node.out.begin(), node.out.end());
      if (!is_op(node, "assign")) continue;
      const auto index = source_index(node);
      const graph::GraphVariable& variable = graph.variables[static_cast<std::size_t>(index)];
      if (variable.name.size() == 7 && variable.name.starts_with("weight")) return variable.name;
      for (const graph::Node& read : graph.nodes()) {
        if (is_deferred(variable) && is_op(read, "variable") && source_index(read) == index)
          open.push_back(read.out[0]);
      }
    }
  }
  return "loss";
}

// The first layer's bucket is ready last and needed first: it overtakes the waiting ones.
TEST(NextForward, SendsFirstLayersBeforeOthersThatWait) {
  const auto order = [](bool next_forward) {
    std::vector<std::string> names;
    on_ranks(make_thread_comms(2), {.layers = 6, .bias = false}, DeepNet::options(next_forward),
             [&](DeepNet& net, AllReduce& strategy) {
               net.step(0);
               if (strategy.rank() != 0) return;
               for (const graph::Node& node : net.graph().nodes()) {
                 if (node.op->comm) names.push_back(updated_by(net.graph(), node.out[0]));
               }
             });
    return names;
  };
  const auto place = [](const std::vector<std::string>& names, const char* name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  const auto late = order(true);
  EXPECT_EQ(late.size(), 7U);
  EXPECT_EQ(late.front(), "loss");
  EXPECT_LT(place(late, "weight0"), place(late, "weight3"));
  EXPECT_EQ(place(late, "weight5"), 1) << "nothing else is ready";
}

// Control: without finish() the last update is missing.
TEST(NextForward, WithoutFinishingTheLastUpdateIsMissing) {
  const std::string want = train({.steps = 3}, DeepNet::options(false)).hash;
  on_ranks(make_thread_comms(2), {.steps = 3}, DeepNet::options(true), [&](DeepNet& net, AllReduce& strategy) {
    for (int s = 0; s < 3; ++s) net.step(s);
    EXPECT_NE(net.hash(), want);
    strategy.finish();
    EXPECT_EQ(net.hash(), want);
    strategy.finish();
    EXPECT_EQ(net.hash(), want) << "there was nothing left to do";
  });
}

TEST(NextForward, OtherProgramsOfTheStrategySeeCompletedUpdates) {
  const auto sums = [](bool next_forward) {
    std::vector<double> seen;
    on_ranks(make_thread_comms(2), {}, DeepNet::options(next_forward), [&](DeepNet& net, AllReduce& strategy) {
      for (int s = 0; s < 6; ++s) {
        net.step(s, s % 2 == 0 ? DeepNet::kRows : 4);  // batches of two sizes: two programs in turn
        const double sum = net.weight_sum();
        if (strategy.rank() == 0) seen.push_back(sum);
      }
    });
    return seen;
  };
  EXPECT_EQ(sums(true), sums(false));
}

TEST(NextForward, AProgramThatEndsMakesItsUpdates) {
  const std::string want = train({.steps = 3}, DeepNet::options(false)).hash;
  on_ranks(make_thread_comms(2), {.steps = 3}, DeepNet::options(true), [&](DeepNet& net, AllReduce&) {
    for (int s = 0; s < 3; ++s) net.step(s);
    net.drop_programs();
    EXPECT_EQ(net.hash(), want);
  });
}

// Exchanges are slow, so that the last ones of a step fail after it has returned.
std::vector<std::string> errors_with(std::uint64_t fail_at, const std::function<void(DeepNet&, AllReduce&)>& body) {
  const auto comms = wrap(make_thread_comms(2), [&](std::unique_ptr<Comm> inner) {
    const bool faulty = inner->rank() == 1;
    return make_faulty(std::move(inner), {.latency = std::chrono::milliseconds(5), .fail_at = faulty ? fail_at : 0});
  });
  return errors_of(comms, [&](Comm& comm) {
    const auto strategy = std::make_shared<AllReduce>(testing::borrowed(comm), DeepNet::options(true));
    DeepNet net(strategy, {.layers = 4, .bias = false});
    try {
      body(net, *strategy);
      ADD_FAILURE() << "expected an error";
    } catch (const runtime::DeferredError& error) {
      fail("late: {}", error.what());
    }
  });
}

// A step makes five exchanges: the loss and four weights.
TEST(NextForward, AFailedLateExchangeIsThrownByTheNextStepNamingItsOwnStep) {
  const auto errors = errors_with(10, [](DeepNet& net, AllReduce&) {
    net.step(0);
    net.step(1);
    net.step(2);
  });
  for (const auto& error : errors) {
    EXPECT_TRUE(contains(error, "late: "));
    EXPECT_TRUE(contains(error, "call 2 of the program"));
  }
}

TEST(NextForward, AFailedLateExchangeIsThrownByFinish) {
  const auto errors = errors_with(10, [](DeepNet& net, AllReduce& strategy) {
    net.step(0);
    net.step(1);
    strategy.finish();
  });
  for (const auto& error : errors) EXPECT_TRUE(contains(error, "call 2 of the program"));
}

}  // namespace
}  // namespace starling::dist
