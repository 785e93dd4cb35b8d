#include "starling/train/ranks/report.h"

#include <algorithm>
#include <string>

namespace starling {
namespace {

constexpr double kNoticeable = 0.05;  // of the time

}  // namespace

std::vector<RankStats> between(std::span<const RankStats> before, std::span<const RankStats> now) {
  std::vector<RankStats> all(now.begin(), now.end());
  for (std::size_t r = 0; r < std::min(before.size(), all.size()); ++r) {
    RankStats& one = all[r];
    one.samples -= before[r].samples;
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
  const auto waits_less = [](const RankStats& a, const RankStats& b) { return a.waited() < b.waited(); };
  const auto [least, most] = std::minmax_element(ranks.begin(), ranks.end(), waits_less);
  if (most->waited() - least->waited() <= kNoticeable * most->seconds) return std::nullopt;
  return static_cast<int>(least - ranks.begin());
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
          {"data_wait", share(stats.data_wait)},
          {"comm_wait", share(stats.waited())},
          {"sent", stats.sent},
          {"received", stats.received},
          {"wait", std::move(wait)}};
}

}  // namespace starling
