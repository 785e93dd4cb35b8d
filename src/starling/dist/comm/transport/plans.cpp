#include "starling/dist/comm/transport/plans.h"

#include <algorithm>

namespace starling::dist {
namespace {

bool by_extremes(ReduceOp reduce) { return reduce == ReduceOp::max || reduce == ReduceOp::min; }

std::uint64_t hash_of(const Call& call) {
  constexpr std::uint64_t kPrime = 1099511628211ull;
  std::uint64_t hash = 14695981039346656037ull;
  const auto mix = [&](std::uint64_t value) { hash = (hash ^ value) * kPrime; };
  mix(static_cast<std::uint64_t>(call.op));
  mix(static_cast<std::uint64_t>(call.dtype));
  mix(by_extremes(call.reduce) ? 1 : 0);
  mix(static_cast<std::uint64_t>(call.peer));
  mix(static_cast<std::uint64_t>(call.count));
  for (std::int64_t count : call.counts) mix(static_cast<std::uint64_t>(count));
  return hash;
}

// Schedule of a message: one transfer, also if it is empty.
Schedule message_of(const Call& call) {
  const bool sends = call.op == CommOp::send;
  const auto bytes = call.count * static_cast<std::int64_t>(size_of(call.dtype));
  Schedule schedule;
  schedule.rounds.push_back(
      {{{sends, call.peer, {sends ? ScheduleBuffer::send : ScheduleBuffer::recv, 0, bytes}}}, {}});
  return schedule;
}

}  // namespace

ScheduleRequest SchedulePlans::request_of(const Call& call) const {
  return {.op = call.op == CommOp::split ? CommOp::all_gather : call.op,  // a split gathers colors and keys
          .rank = rank_,
          .size = size_,
          .count = call.count,
          .counts = call.counts,
          .element_bytes = static_cast<std::int64_t>(size_of(call.dtype)),
          .root = std::max(0, call.peer),
          .hosts = rules_.hosts};
}

const SchedulePlans::Plan& SchedulePlans::of(const Call& call) {
  const std::uint64_t hash = hash_of(call);
  for (const Entry& entry : entries_) {
    if (entry.hash == hash && entry.op == call.op && entry.dtype == call.dtype && entry.count == call.count &&
        entry.root == call.peer && entry.extremes == by_extremes(call.reduce) &&
        std::equal(entry.counts.begin(), entry.counts.end(), call.counts.begin(), call.counts.end()))
      return entry.plan;
  }
  Entry made{hash,
             call.op,
             call.dtype,
             by_extremes(call.reduce),
             call.peer,
             call.count,
             {call.counts.begin(), call.counts.end()},
             make(call)};
  if (entries_.size() < kMost) return entries_.emplace_back(std::move(made)).plan;
  Entry& place = entries_[oldest_++ % kMost];
  place = std::move(made);
  return place.plan;
}

SchedulePlans::Plan SchedulePlans::make(const Call& call) const {
  if (is_point_to_point(call.op)) return std::make_shared<const Schedule>(message_of(call));
  ScheduleRequest request = request_of(call);
  const Choice choice = choose(request, rules_, call.dtype, call.reduce);
  request.segment_bytes = choice.segment_bytes;
  return std::make_shared<const Schedule>(make_schedule(*choice.algorithm, request));
}

}  // namespace starling::dist
