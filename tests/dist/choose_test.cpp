// Cost-based choice of algorithms: it follows the cost model, and changes where the model says.
#include "starling/dist/comm/algorithms/choose.h"

#include <gtest/gtest.h>

#include "dist/comm_worlds.h"

namespace starling::dist {
namespace {

ScheduleRequest all_reduce_of(std::int64_t count, int world) {
  return {.op = CommOp::all_reduce, .size = world, .count = count, .element_bytes = 4};
}

std::string_view chosen(const ScheduleRequest& request, const ChoiceRules& rules, DType dtype = DType::f32,
                        ReduceOp reduce = ReduceOp::sum) {
  return choose(request, rules, dtype, reduce).algorithm->name;
}

ChoiceRules rules_of(const LinkCosts& costs) { return {.far = costs, .near = costs}; }

// One message at a time: a rank that sends to all pays for each message.
constexpr LinkCosts kSerial{.latency = 10e-6, .overhead = 10e-6, .per_byte = 1e-9, .reduce_byte = 1e-12};

TEST(Predict, EqualsTheCostFormula) {
  constexpr std::int64_t kCount = 8'000;
  const double n = 4.0 * kCount;
  const CostModel model{.far = kSerial, .near = kSerial};
  const double ring = predict(ring_algorithm(), all_reduce_of(kCount, 8), model);
  EXPECT_NEAR(ring, 14 * kSerial.latency + 14.0 / 8 * n * kSerial.per_byte, 0.01 * ring);
  const double halving = predict(halving_doubling_algorithm(), all_reduce_of(kCount, 8), model);
  EXPECT_NEAR(halving, 6 * kSerial.latency + 14.0 / 8 * n * kSerial.per_byte, 0.01 * halving);
  const double doubling = predict(recursive_doubling_algorithm(), all_reduce_of(kCount, 8), model);
  EXPECT_NEAR(doubling, 3 * kSerial.latency + 3 * n * kSerial.per_byte, 0.01 * doubling);
}

TEST(Predict, SamplesEnoughRanksOfALargeWorld) {
  const CostModel some{.far = kSerial, .near = kSerial};
  const std::vector<int> apart = [] {  // every rank on its own host: all are considered, and the links are the same
    std::vector<int> hosts;
    for (int r = 0; r < 45; ++r) hosts.push_back(r);
    return hosts;
  }();
  const CostModel all{.far = kSerial, .near = kSerial, .hosts = apart};
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.needs_hosts || algorithm.needs_chain) continue;
    for (const auto& [op, make] : algorithm.makers) {
      ScheduleRequest request = all_reduce_of(10'000, 45);
      request.op = op;
      request.root = 20;
      EXPECT_NEAR(predict(algorithm, request, some), predict(algorithm, request, all),
                  0.02 * predict(algorithm, request, all))
          << algorithm.name << " " << name(op);
    }
  }
}

TEST(Choose, FlipsFromRecursiveDoublingToHalvingDoublingWhereTheModelSays) {
  // 3 steps of n against 6 steps of 14/8 n in all: even at latency 3 = 1.25 n per_byte, n = 24 kB.
  const double even = 3 * kSerial.latency / (1.25 * kSerial.per_byte);
  const auto just = [&](double bytes) { return all_reduce_of(static_cast<std::int64_t>(bytes / 4), 8); };
  EXPECT_EQ(chosen(just(even * 0.97), rules_of(kSerial)), "recursive_doubling");
  EXPECT_EQ(chosen(just(even * 1.03), rules_of(kSerial)), "halving_doubling");
  LinkCosts twice = kSerial;
  twice.latency *= 2;
  EXPECT_EQ(chosen(just(even * 1.5), rules_of(twice)), "recursive_doubling") << "with the latency the border moves";
  EXPECT_EQ(chosen(just(even * 2.06), rules_of(twice)), "halving_doubling");
}

TEST(Choose, TakesTheRingWhereHalvingIsFoldedAndTheBufferIsLarge) {
  EXPECT_EQ(chosen(all_reduce_of(4'000'000, 7), rules_of({10e-6, 1, 1e-9, 1e-12})), "ring");
}

TEST(Choose, SendsToAllRanksAtOnceWhenMessagesAreCheap) {
  const LinkCosts cheap{.latency = 50e-6, .overhead = 1e-6, .per_byte = 1e-9, .reduce_byte = 1e-11};
  EXPECT_EQ(chosen(all_reduce_of(10, 4), rules_of(cheap)), "one_shot");
  EXPECT_EQ(chosen(all_reduce_of(1'000'000, 4), rules_of(cheap)), "direct");
}

TEST(Choose, SumsHalfPrecisionInRankOrderToRoundOnce) {
  const ScheduleRequest large = all_reduce_of(1'000'000, 8);
  EXPECT_EQ(chosen(large, rules_of(kSerial)), "halving_doubling");
  EXPECT_EQ(chosen(large, rules_of(kSerial), DType::bf16), "direct");
  EXPECT_EQ(chosen(large, rules_of(kSerial), DType::bf16, ReduceOp::max), "halving_doubling");
  ChoiceRules ordered = rules_of(kSerial);
  ordered.rank_ordered = true;
  EXPECT_EQ(chosen(large, ordered), "direct");
}

TEST(Choose, TakesTheHierarchicalAlgorithmWhenLinksWithinHostsAreFast) {
  ChoiceRules rules{.far = {100e-6, 5e-6, 10e-9, 1e-11}, .near = {2e-6, 0.2e-6, 0.1e-9, 1e-11}};
  for (int r = 0; r < 8; ++r) rules.hosts.push_back(r / 4);
  EXPECT_EQ(chosen(all_reduce_of(1'000'000, 8), rules), "hierarchical");
  rules.hosts.clear();
  EXPECT_NE(chosen(all_reduce_of(1'000'000, 8), rules), "hierarchical") << "hosts are not known";
}

TEST(Choose, TakesTheLinearTopologyOnAChainOnly) {
  ChoiceRules rules = rules_of({1e-6, 1e-6, 10e-9, 1e-12});
  EXPECT_NE(chosen(all_reduce_of(1'000'000, 8), rules), "linear");
  rules.chain = true;
  EXPECT_EQ(chosen(all_reduce_of(1'000'000, 8), rules), "linear");
}

TEST(Choose, BroadcastsByTreeWhenSmallAndByChainWhenLarge) {
  ScheduleRequest request = all_reduce_of(10, 8);
  request.op = CommOp::broadcast;
  EXPECT_EQ(chosen(request, rules_of(kSerial)), "binomial");
  request.count = 10'000'000;
  const Choice large = choose(request, rules_of(kSerial), DType::f32, ReduceOp::sum);
  EXPECT_EQ(large.algorithm->name, "chain");
  // sqrt((P-2) n beta / alpha) segments: no other number is much better.
  for (double factor : {0.5, 2.0}) {
    ScheduleRequest other = request;
    const CostModel model{.far = kSerial, .near = kSerial};
    other.segment_bytes = large.segment_bytes;
    const double best = predict(chain_algorithm(), other, model);
    other.segment_bytes = static_cast<std::int64_t>(factor * static_cast<double>(large.segment_bytes));
    EXPECT_LE(best, predict(chain_algorithm(), other, model)) << factor;
  }
}

TEST(Choose, TakesAnAlgorithmByNameAndPredictsItsCost) {
  ChoiceRules rules = rules_of(kSerial);
  rules.forced[CommOp::all_reduce] = "ring";
  const ScheduleRequest request = all_reduce_of(100, 4);
  const Choice choice = choose(request, rules, DType::f32, ReduceOp::sum);
  EXPECT_EQ(choice.algorithm->name, "ring");
  EXPECT_TRUE(contains(describe(choice, request),
                       "all_reduce of 400 bytes over 4 ranks: ring (asked for), 6 steps, 600 bytes sent by rank 0"));
  rules.forced.clear();
  EXPECT_TRUE(contains(describe(choose(request, rules, DType::f32, ReduceOp::sum), request), "; then "));
}

}  // namespace
}  // namespace starling::dist
