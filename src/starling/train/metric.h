#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "starling/base/config/kinds.h"
#include "starling/tensor/tensor.h"

namespace starling {

// One evaluated batch; tensors are contiguous on the CPU, predictions f32.
struct Judged {
  Tensor prediction;  // from the objective; undefined if it has none
  Tensor target;
  std::span<const Tensor> fields;  // the batch itself
  double loss = 0;                 // weighted mean over the batch
  double weight = 0;
};

// A metric, accumulated batch by batch on the host. Order and size of batches do not matter (except for rounding of
// float sums). Class logits are on the last axis of a prediction, with one label per row in the target; labels below 0
// are ignored.
class Metric {
 public:
  virtual ~Metric() = default;
  virtual void add(const Judged& batch) = 0;
  virtual double value() const = 0;  // NaN if nothing was added
  virtual void reset() = 0;
  virtual bool higher_is_better() const { return true; }
  // For evaluation over several ranks: sums() is the accumulated state as numbers, and join() adds another rank's.
  // Joining the sums of single batches in order equals add() on them. nullopt: the metric must see every batch itself.
  virtual std::optional<std::vector<double>> sums() const { return std::nullopt; }
  virtual void join([[maybe_unused]] std::span<const double> sums) {}
  // Details as text, such as a confusion matrix. Names may be empty.
  virtual std::string table([[maybe_unused]] const std::vector<std::string>& class_names) const { return {}; }
};

using MetricKinds = Kinds<std::unique_ptr<Metric>>;

// Metrics by their names in job files (accuracy, top_k, f1, …); built from the files in train/metrics.
const MetricKinds& metric_kinds();

// A metric and the name it is reported under.
struct NamedMetric {
  std::string name;
  std::shared_ptr<Metric> metric;
};
// Metrics with default options; throws on an unknown name, suggesting the closest.
std::vector<NamedMetric> metrics_by_name(const std::vector<std::string>& names);

}  // namespace starling
