#include "starling/ops/def/sharding/factors.h"

#include <algorithm>
#include <limits>

#include "starling/ops/def/rules.h"
#include "starling/ops/def/sharding/redistribution.h"

namespace starling {

bool Factor::summed() const {
  return std::all_of(out.begin(), out.end(), [](std::int8_t dim) { return dim == kNone; });
}

namespace rules {
namespace {

Layout operand_layout(std::int8_t dim) {
  if (dim == Factor::kTerm) return Layout::partial();
  return dim == Factor::kNone ? Layout::replicate() : Layout::split(dim);
}

// Elements sent to give an operand another layout. Calls do not know how many ranks there are: this is for two. With
// more, a resplit is cheaper still beside the others.
double moved(const TensorType& type, Layout from, Layout to) {
  constexpr int kRanks = 2;
  return static_cast<double>(sent_elements(type.shape, from, to, kRanks));
}

ShardRule rule_of(const ShardCall& call, const Factor& factor) {
  ShardRule rule = shard_replicated(call);
  for (std::size_t i = 0; i < factor.in.size(); ++i) rule.in[i] = operand_layout(factor.in[i]);
  for (std::size_t i = 0; i < factor.out.size(); ++i)
    rule.out[i] = factor.summed() ? Layout::partial() : operand_layout(factor.out[i]);
  return rule;
}

// A sum costs its reduction, too.
double cost_of(const ShardCall& call, const ShardRule& rule) {
  double cost = 0;
  for (std::size_t i = 0; i < rule.in.size(); ++i) cost += moved(call.in[i], call.layouts[i], rule.in[i]);
  for (std::size_t i = 0; i < rule.out.size(); ++i) cost += moved(call.out[i], rule.out[i], Layout::replicate());
  return cost;
}

// True if some operand is split along the factor now.
bool is_met(const ShardCall& call, const Factor& factor) {
  for (std::size_t i = 0; i < factor.in.size(); ++i) {
    if (factor.in[i] >= 0 && call.layouts[i].is_split(factor.in[i])) return true;
  }
  return false;
}

// Terms of the only operand that is not whole, if the call is linear in it.
ShardRule of_terms(const ShardCall& call, std::uint32_t linear) {
  ShardRule rule = shard_replicated(call);
  int terms = -1;
  for (std::size_t i = 0; i < call.layouts.size(); ++i) {
    if (call.layouts[i].is_replicate()) continue;
    if (terms >= 0 || call.layouts[i] != Layout::partial() || !((linear >> i) & 1)) return rule;
    terms = static_cast<int>(i);
  }
  if (terms < 0) return rule;
  rule.in[static_cast<std::size_t>(terms)] = Layout::partial();
  for (auto& out : rule.out) out = Layout::partial();
  return rule;
}

}  // namespace

ShardRule shard_factors(const ShardCall& call, const Factors& factors) {
  ShardRule best = of_terms(call, factors.linear);
  double least = std::numeric_limits<double>::infinity();
  for (const Factor& factor : factors.all) {
    if (!is_met(call, factor)) continue;
    const ShardRule rule = rule_of(call, factor);
    const double cost = cost_of(call, rule);
    if (cost >= least) continue;
    least = cost;
    best = rule;
  }
  return best;
}

}  // namespace rules
}  // namespace starling
