#include "starling/train/callbacks/watched_metric.h"

#include "starling/base/error.h"

namespace starling {
namespace {

std::string names_of(const std::map<std::string, double>& metrics) {
  std::string all;
  for (const auto& [name, value] : metrics) all += (all.empty() ? "" : ", ") + name;
  return all.empty() ? "none" : all;
}

}  // namespace

std::optional<double> watched_metric(const Run& run, const std::string& metric, const char* who) {
  const auto& metrics = run.evaluation().metrics;
  if (const auto found = metrics.find(metric); found != metrics.end()) return found->second;
  if (!run.plan().made_by_callbacks(metric))
    fail("[{}] expected the metric '{}' in the evaluation, got {}", who, metric, names_of(metrics));
  return std::nullopt;
}

}  // namespace starling
