#pragma once

#include <memory>
#include <span>
#include <string>

#include "starling/base/kinds.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Judges predictions batch by batch, on the host. Sums and counts, so that the order of batches does not matter.
class Metric {
 public:
  virtual ~Metric() = default;
  // `prediction` is what the objective gave, `fields` are the batch; dense on a CPU.
  virtual void add(const Tensor& prediction, std::span<const Tensor> fields) = 0;
  virtual double value() const = 0;  // NaN while nothing was added
  virtual void reset() = 0;
  virtual bool higher_is_better() const { return true; }
};

using MetricKinds = Kinds<std::unique_ptr<Metric>>;

// By the names that jobs use (accuracy, top_k, f1, …); built from the files in train/metrics.
const MetricKinds& metric_kinds();

}  // namespace starling
