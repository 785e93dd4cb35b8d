#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "starling/base/kinds.h"
#include "starling/tensor/tensor.h"

namespace starling {

// One batch that was evaluated; tensors are dense on a CPU, predictions f32.
struct Judged {
  Tensor prediction;  // what the objective gave; undefined when it gives none
  Tensor target;
  std::span<const Tensor> fields;  // the batch itself
  double loss = 0;                 // the weighted mean of the batch
  double weight = 0;
};

// Judges predictions batch by batch, on the host. Sums and counts, so that neither the order nor the size of batches
// matters (but for the last bits of sums of floats). Class logits stand on the last axis of a prediction, one label for
// each row of them in the target; labels below 0 count nothing.
class Metric {
 public:
  virtual ~Metric() = default;
  virtual void add(const Judged& batch) = 0;
  virtual double value() const = 0;  // NaN while nothing was added
  virtual void reset() = 0;
  virtual bool higher_is_better() const { return true; }
  // For judges that share the batches: all that was added since reset() as numbers, and such numbers of another judge
  // added to what is here. One batch apiece, joined in their order, comes to what add() makes of them. Not set: it
  // wants to see every batch itself.
  virtual std::optional<std::vector<double>> sums() const { return std::nullopt; }
  virtual void join([[maybe_unused]] std::span<const double> sums) {}
  // More than the number: lines of columns, such as a confusion matrix. Names may be empty.
  virtual std::string table([[maybe_unused]] const std::vector<std::string>& class_names) const { return {}; }
};

using MetricKinds = Kinds<std::unique_ptr<Metric>>;

// By the names that jobs use (accuracy, top_k, f1, …); built from the files in train/metrics.
const MetricKinds& metric_kinds();

// A metric and the name its value is told under.
struct NamedMetric {
  std::string name;
  std::shared_ptr<Metric> metric;
};
// Each with every option at its default; throws naming the closest known.
std::vector<NamedMetric> metrics_by_name(const std::vector<std::string>& names);

}  // namespace starling
