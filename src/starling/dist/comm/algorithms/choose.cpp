#include "starling/dist/comm/algorithms/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "starling/base/error.h"

namespace starling::dist {
namespace {

std::int64_t whole_bytes(const ScheduleRequest& request) {
  const bool in_pieces = request.op != CommOp::all_reduce && request.op != CommOp::broadcast;
  return request.count * request.element_bytes * (in_pieces && request.counts.empty() ? request.size : 1);
}

// Optimal segment size of the pipeline: minimises (P-2+m)(alpha + n/m beta) over m segments.
std::int64_t best_segment(const ScheduleRequest& request, const LinkCosts& link) {
  constexpr double kSmallest = 4096;
  const auto bytes = static_cast<double>(whole_bytes(request));
  const double segments = std::sqrt(std::max(1, request.size - 2) * bytes * link.per_byte / link.latency);
  const double segment = bytes / std::max(1.0, segments);
  return static_cast<std::int64_t>(std::max(kSmallest, std::ceil(segment / kSmallest) * kSmallest));
}

// True if the reduction must round once, in rank order: sums and products of half precision.
bool rounds_once(DType dtype, ReduceOp reduce, CommOp op) {
  const bool combines = op == CommOp::all_reduce || op == CommOp::reduce_scatter;
  const bool half = dtype == DType::f16 || dtype == DType::bf16;
  return combines && half && reduce != ReduceOp::max && reduce != ReduceOp::min;
}

bool several_hosts(const ChoiceRules& rules) {
  return std::set<int>(rules.hosts.begin(), rules.hosts.end()).size() > 1;
}

bool eligible(const Algorithm& algorithm, const ScheduleRequest& request, const ChoiceRules& rules, bool ordered) {
  if (algorithm.maker(request.op) == nullptr) return false;
  if (ordered && !algorithm.rank_ordered) return false;
  if (algorithm.needs_hosts && !several_hosts(rules)) return false;
  return !algorithm.needs_chain || rules.chain;
}

}  // namespace

Choice choose(const ScheduleRequest& asked, const ChoiceRules& rules, DType dtype, ReduceOp reduce) {
  ScheduleRequest request = asked;
  request.hosts = rules.hosts;
  request.segment_bytes = best_segment(request, rules.far);
  Choice choice{.segment_bytes = request.segment_bytes};
  const CostModel model{rules.far, rules.near, rules.hosts, rules.chain};
  const auto consider = [&](const Algorithm& algorithm) {
    ScheduleRequest first = request;
    first.rank = 0;
    choice.candidates.push_back(
        {algorithm.name, predict(algorithm, request, model), traffic_of(make_schedule(algorithm, first))});
  };
  const auto forced = rules.forced.find(request.op);
  if (forced != rules.forced.end()) {
    choice.forced = true;
    choice.algorithm = &algorithm_named(forced->second, request.op);
    consider(*choice.algorithm);
    return choice;
  }
  const bool ordered = rules.rank_ordered || rounds_once(dtype, reduce, request.op);
  for (const Algorithm& algorithm : algorithms())
    if (eligible(algorithm, request, rules, ordered)) consider(algorithm);
  if (choice.candidates.empty())
    fail("[comm] expected an algorithm for {}, got none that may be used", name(request.op));
  std::stable_sort(choice.candidates.begin(), choice.candidates.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  choice.algorithm = &algorithm_named(choice.candidates[0].name, request.op);
  return choice;
}

std::string describe(const Choice& choice, const ScheduleRequest& request) {
  const Choice::Candidate& best = choice.candidates[0];
  std::string text =
      fmt::format("{} of {} bytes over {} ranks: {}{}, {} steps, {} bytes sent by rank 0, {:.3g} ms", name(request.op),
                  whole_bytes(request), request.size, best.name, choice.forced ? " (asked for)" : "",
                  best.traffic.steps, best.traffic.bytes_sent, best.seconds * 1e3);
  for (std::size_t i = 1; i < choice.candidates.size(); ++i)
    text += fmt::format("{} {} {:.3g} ms", i == 1 ? "; then" : ",", choice.candidates[i].name,
                        choice.candidates[i].seconds * 1e3);
  return text;
}

}  // namespace starling::dist
