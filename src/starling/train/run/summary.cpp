#include "starling/train/run/summary.h"

#include <nlohmann/json.hpp>

#include "starling/base/file/file.h"
#include "starling/base/file/folder.h"
#include "starling/train/ranks/report.h"

namespace starling {

std::string to_json(const Summary& summary) {
  nlohmann::ordered_json json = {
      {"steps", summary.steps},           {"samples_per_s", summary.samples_per_s}, {"loss", summary.loss},
      {"metrics", summary.metrics},       {"wait_share", summary.wait_share},       {"skipped", summary.skipped},
      {"peak_bytes", summary.peak_bytes}, {"weights_hash", summary.weights_hash}};
  if (summary.interrupted) json["interrupted"] = true;
  if (summary.started > 0) json["started"] = summary.started;
  if (summary.rollbacks > 0) json["rollbacks"] = summary.rollbacks;
  if (!summary.ranks.empty()) {
    std::vector<RankStats> stats;
    nlohmann::ordered_json& ranks = json["ranks"] = nlohmann::ordered_json::array();
    for (const auto& rank : summary.ranks) {
      ranks.push_back(train::to_json(static_cast<int>(stats.size()), rank.stats));
      ranks.back()["counters"] = rank.counters;
      stats.push_back(rank.stats);
    }
    const auto slow = train::straggler(stats);
    json["strategy"] = summary.strategy;
    json["straggler"] = slow ? nlohmann::ordered_json(*slow) : nlohmann::ordered_json();
  }
  return json.dump(2) + "\n";
}

Result<void> write_summary(const std::filesystem::path& folder, const Summary& summary) {
  if (auto made = make_folders(folder); !made) return made;
  return write_file_atomically(folder / "summary.json", to_json(summary));
}

}  // namespace starling
