#include "starling/ops/def/sharding/redistribution.h"

#include <array>

#include "starling/base/error.h"
#include "starling/ops/def/sharding/resplit.h"

namespace starling {
namespace {

using Kind = Layout::Kind;

constexpr auto kNothing = [](const Shape&, Layout, Layout, std::int64_t) -> std::int64_t { return 0; };
// Every element goes to all ranks that have it not: pieces to all others, or terms of a piece to the one that adds.
constexpr auto kOnce = [](const Shape& whole, Layout, Layout, std::int64_t ranks) -> std::int64_t {
  return (ranks - 1) * whole.numel();
};
constexpr auto kTwice = [](const Shape& whole, Layout, Layout, std::int64_t ranks) -> std::int64_t {
  return 2 * (ranks - 1) * whole.numel();
};
// Every element goes to the rank whose piece it is in afterwards, unless it is there already.
constexpr auto kMoved = [](const Shape& whole, Layout from, Layout to, std::int64_t ranks) -> std::int64_t {
  std::int64_t stays = 0;
  for (int rank = 0; rank < ranks; ++rank) stays += op::elements_kept(whole, from, to, rank, static_cast<int>(ranks));
  return whole.numel() - stays;
};

constexpr std::array<Transition, 9> kTransitions = {{
    {Kind::replicate, Kind::replicate, "nothing", kNothing},
    {Kind::replicate, Kind::split, "slice", kNothing},
    {Kind::replicate, Kind::partial, "share", kNothing},
    {Kind::split, Kind::replicate, "all_gather", kOnce},
    {Kind::split, Kind::split, "resplit", kMoved},
    {Kind::split, Kind::partial, "zeros", kNothing},
    {Kind::partial, Kind::replicate, "all_reduce", kTwice},
    {Kind::partial, Kind::split, "reduce_scatter", kOnce},
    {Kind::partial, Kind::partial, "all_reduce", kTwice},  // terms of a maximum to those of a sum
}};

}  // namespace

std::span<const Transition> transitions() { return kTransitions; }

const Transition& transition(Layout from, Layout to) {
  check(!to.is_partial() || from == to || to.reduce == ReduceOp::sum,
        "[layout] expected terms of a sum to be made from {}, got {}", to_string(from), to_string(to));
  for (const Transition& one : kTransitions) {
    if (one.from == from.kind && one.to == to.kind) return one;
  }
  fail("[layout] expected a way from {} to {}, got none", to_string(from), to_string(to));
}

std::int64_t sent_elements(const Shape& whole, Layout from, Layout to, int ranks) {
  if (from == to || ranks <= 1) return 0;
  return transition(from, to).sent(whole, from, to, ranks);
}

}  // namespace starling
