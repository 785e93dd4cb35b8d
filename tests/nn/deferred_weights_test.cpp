// Parameters that are made in pieces: every element is that of the whole, whatever the cut.
#include "starling/nn/deferred_weights.h"

#include <gtest/gtest.h>

#include <numeric>

#include "starling/base/thread/thread_context.h"
#include "starling/nn/layers.h"
#include "starling/ops/api/random.h"
#include "starling/zoo/zoo.h"

namespace starling {
namespace {

using nn::DeferredWeights;
using nn::ElementRun;
using nn::Init;

// The same network, whole and with every parameter put together from pieces of `count` elements.
struct Twice {
  std::shared_ptr<nn::Module> whole, pieces;
  std::int64_t made_whole = 0;
  std::int64_t deferred = 0;
};

template <class Make>
Twice twice(const Make& make, std::int64_t count) {
  Twice both;
  manual_seed(11);
  both.whole = make();
  manual_seed(11);
  DeferredWeights deferred;
  both.pieces = make();
  manual_seed(5);  // what is drawn later does not matter
  for (const Tensor& one : both.pieces->parameters()) {
    if (!deferred.holds(one)) continue;
    ++both.deferred;
    const std::int64_t numel = one.numel();
    const Tensor put_together = empty(one.shape()), piece = empty({numel});  // which has the runs from the last on
    std::vector<ElementRun> runs;
    for (std::int64_t at = 0; at < numel; at += count) {
      const std::int64_t size = std::min(count, numel - at);
      runs.push_back({at, numel - at - size, size});
    }
    deferred.fill(one, runs, piece);
    for (const auto& [whole, part, size] : runs)
      std::copy_n(piece.data<float>() + part, size, put_together.data<float>() + whole);
    EXPECT_FALSE(deferred.holds(one)) << one.name();
    EXPECT_FALSE(one.impl()->storage) << one.name();
    one.impl()->storage = put_together.impl()->storage;
  }
  both.made_whole = deferred.made_whole();
  deferred.make_rest();
  return both;
}

void expect_equal(const Twice& both) {
  const auto whole = both.whole->state(), pieces = both.pieces->state();
  ASSERT_EQ(whole.size(), pieces.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_EQ(whole[i].first, pieces[i].first);
    EXPECT_EQ(whole[i].second.to_vector(), pieces[i].second.to_vector()) << whole[i].first;
  }
}

TEST(DeferredWeights, PiecesOfEveryWayToBeginAreThoseOfTheWhole) {
  int whole = 0;
  for (const Init& init : {Init::constant(0.25), Init::uniform(-2, 3), Init::normal(0.5, 1), Init::truncated_normal(2),
                           Init::xavier_uniform(), Init::xavier_normal(2), Init::he_uniform(), Init::he_normal(true),
                           Init::lecun_uniform(), Init::lecun_normal(), Init::orthogonal(), Init::sparse(0.4)}) {
    for (const std::int64_t count : {1, 7, 64, 1000}) {
      SCOPED_TRACE(fmt::format("{}, pieces of {}", nn::name(init.kind), count));
      const Twice both = twice(
          [&] {
            auto net = std::make_shared<nn::Sequential>();
            net->add("before", nn::Linear({.in = 3, .out = 5}));
            net->add("fc", nn::Linear({.in = 13, .out = 21, .init = init}));
            net->add("after", nn::Linear({.in = 3, .out = 5}));  // the same random calls come before it
            return net;
          },
          count);
      expect_equal(both);
      EXPECT_EQ(both.deferred, 6);
      whole += both.made_whole > 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(whole, 3 * 4) << "truncated_normal, orthogonal and sparse, whose numbers depend on each other";
}

// A rule for names comes after the network is there: no parameter gets memory for it, and the numbers are the same.
TEST(DeferredWeights, BeginAgainByNameWithoutMemory) {
  for (const Init& init : {Init::normal(0.5, 1), Init::orthogonal()}) {
    const auto make = [&] {
      auto net = std::make_shared<nn::Sequential>();
      net->add("table", nn::Embedding({9, 5, 0.5, 4}));  // a row of zeros, which the rule draws anew
      net->add("fc", nn::Linear({.in = 5, .out = 7}));
      EXPECT_EQ(nn::initialise(*net, "*weight", init), 2U);
      return net;
    };
    const Twice both = twice(make, 7);
    expect_equal(both);
    EXPECT_EQ(both.deferred, 3) << "all are still without memory after the rule";
    EXPECT_EQ(both.made_whole, init.kind == nn::InitKind::orthogonal ? 2 : 0);
  }
}

TEST(DeferredWeights, BelongToTheContextOfTheThread) {
  DeferredWeights deferred;
  {
    const ThreadContextScope elsewhere{ThreadContext{}};
    EXPECT_TRUE(nn::initial({3, 4}, Init::normal()).impl()->storage);
  }
  EXPECT_FALSE(nn::initial({3, 4}, Init::normal()).impl()->storage);
  deferred.make_rest();
}

TEST(DeferredWeights, RowsThatBeginAsZerosDoSoInEveryPiece) {
  const auto make = [] { return std::make_shared<nn::Embedding>(nn::EmbeddingOptions{9, 5, 0.5, 4}); };
  for (const std::int64_t count : {1, 3, 45}) expect_equal(twice(make, count));
  const auto table = twice(make, 7).pieces->parameters()[0].to_vector();
  EXPECT_EQ(std::accumulate(table.begin() + 20, table.begin() + 25, 0.0), 0);
  EXPECT_NE(table[19], 0);
}

TEST(DeferredWeights, EveryNetworkOfTheZooIsTheSame) {
  std::int64_t deferred = 0, all = 0, whole = 0;
  for (const auto& name : zoo::nets().names()) {
    SCOPED_TRACE(name);
    const zoo::Recipe recipe = zoo::nets().small(name).net.make();
    const Twice both = twice(recipe.make, 1009);
    expect_equal(both);
    deferred += both.deferred;
    all += std::ssize(both.whole->parameters());
    whole += both.made_whole;
  }
  EXPECT_GE(deferred, all - 4) << "but for the weights of a Boltzmann machine, which pre-training hands over";
  EXPECT_EQ(whole, 0);
}

TEST(DeferredWeights, OutsideOfTheScopeAndInAPauseTensorsHaveMemory) {
  EXPECT_TRUE(nn::initial({3, 4}, Init::normal()).impl()->storage);
  DeferredWeights deferred;
  const Tensor later = nn::initial({3, 4}, Init::normal());
  EXPECT_FALSE(later.impl()->storage);
  {
    const DeferredWeights::Pause now;
    EXPECT_TRUE(nn::initial({3, 4}, Init::normal()).impl()->storage);
  }
  EXPECT_TRUE(deferred.holds(later));
  EXPECT_THROW(later.to_vector(), Error);
  deferred.make(later);
  EXPECT_EQ(later.to_vector().size(), 12U);
}

}  // namespace
}  // namespace starling
