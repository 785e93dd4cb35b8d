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

}  // namespace starling
