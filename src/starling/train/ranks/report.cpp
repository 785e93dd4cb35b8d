#include "starling/train/ranks/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace starling::train {
namespace {

constexpr double kNoticeable = 0.05;   // of the time
constexpr double kMuch = 0.15;         // share of a rank's rows
constexpr double kWorthTelling = 0.3;  // of the time
constexpr double kLongRun = 10;        // seconds

std::optional<int> left_behind(std::span<const RankStats> ranks) {
  std::size_t first = 0;
  double second = 0;
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const bool more = ranks[r].left_out_share() > ranks[first].left_out_share();
    second = std::max(second, ranks[more ? first : r].left_out_share());
    if (more) first = r;
  }
  if (ranks[first].left_out_share() - second <= kMuch) return std::nullopt;
  return static_cast<int>(first);
}

}  // namespace

std::vector<RankStats> between(std::span<const RankStats> before, std::span<const RankStats> now) {
  std::vector<RankStats> all(now.begin(), now.end());
  for (std::size_t r = 0; r < std::min(before.size(), all.size()); ++r) {
    RankStats& one = all[r];
    one.samples -= before[r].samples;
    one.left_out -= before[r].left_out;
    one.seconds -= before[r].seconds;
    one.data_wait -= before[r].data_wait;
    one.sent -= before[r].sent;
    one.received -= before[r].received;
    for (std::size_t op = 0; op < one.wait.size(); ++op) one.wait[op] -= before[r].wait[op];
  }
  return all;
}

std::optional<int> straggler(std::span<const RankStats> ranks) {
  if (ranks.size() < 2) return std::nullopt;
  if (const auto slow = left_behind(ranks)) return slow;
  const auto waits_less = [](const RankStats& a, const RankStats& b) { return a.waited() < b.waited(); };
  const auto [least, most] = std::minmax_element(ranks.begin(), ranks.end(), waits_less);
  if (most->waited() - least->waited() <= kNoticeable * most->seconds) return std::nullopt;
  return static_cast<int>(least - ranks.begin());
}

std::string describe_straggler(std::span<const RankStats> ranks) {
  const auto slow = straggler(ranks);
  if (!slow) return {};
  const RankStats& own = ranks[static_cast<std::size_t>(*slow)];
  if (own.seconds < kLongRun) return {};  // dominated by compilation and start-up
  if (own.left_out_share() > kMuch)
    return fmt::format("rank {} is slower than the others: it left out {:.0f} % of its samples", *slow,
                       100 * own.left_out_share());
  double waited = 0;
  double seconds = 0;
  for (const auto& rank : ranks) {
    if (&rank == &own) continue;
    waited += rank.waited();
    seconds += rank.seconds;
  }
  const double share = seconds > 0 ? waited / seconds : 0;
  if (share < kWorthTelling) return {};
  return fmt::format("rank {} is slower than the others: they waited {:.0f} % of their time", *slow, 100 * share);
}

nlohmann::ordered_json to_json(int rank, const RankStats& stats) {
  const auto share = [&](double seconds) { return stats.seconds > 0 ? seconds / stats.seconds : 0; };
  nlohmann::ordered_json wait = nlohmann::ordered_json::object();
  for (int op = 0; op < kCommOpCount; ++op) {
    const double seconds = stats.wait[static_cast<std::size_t>(op)];
    if (seconds > 0) wait[std::string(name(static_cast<CommOp>(op)))] = seconds;
  }
  return {{"rank", rank},
          {"samples_per_s", stats.samples_per_s()},
          {"samples", stats.samples},
          {"left_out", stats.left_out},
          {"data_wait", share(stats.data_wait)},
          {"comm_wait", share(stats.waited())},
          {"sent", stats.sent},
          {"received", stats.received},
          {"wait", std::move(wait)}};
}

}  // namespace starling::train
