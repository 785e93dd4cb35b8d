#include "starling/train/metric.h"

namespace starling {

void register_metrics(MetricKinds& into);  // generated

const MetricKinds& metric_kinds() {
  static const MetricKinds kinds = [] {
    MetricKinds made;
    register_metrics(made);
    return made;
  }();
  return kinds;
}

std::vector<NamedMetric> metrics_by_name(const std::vector<std::string>& names) {
  std::vector<NamedMetric> all;
  for (const auto& name : names) all.push_back({name, metric_kinds().by_name(name).make()});
  return all;
}

}  // namespace starling
