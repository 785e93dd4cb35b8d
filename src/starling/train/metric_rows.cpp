#include "starling/train/metric_rows.h"

#include <limits>

#include "starling/base/error.h"

namespace starling::train {

void expect_labels(const Judged& batch, const char* who) {
  check(batch.prediction.defined() && batch.target.defined(),
        "[{}] expected an objective with predictions and targets, got one without", who);
  const Shape& logits = batch.prediction.shape();
  const Shape& labels = batch.target.shape();
  const bool rows = logits.rank() == labels.rank() + 1 && std::equal(labels.begin(), labels.end(), logits.begin());
  if (rows && batch.prediction.dtype() == DType::f32 && batch.target.dtype() == DType::i64) return;
  fail("[{}] expected predictions f32 [d…, classes] of labels i64 [d…], got {} of {}", who,
       to_string(batch.prediction.type()), to_string(batch.target.type()));
}

void expect_numbers(const Judged& batch, const char* who) {
  check(batch.prediction.defined() && batch.target.defined(),
        "[{}] expected an objective with predictions and targets, got one without", who);
  check(batch.prediction.dtype() == DType::f32 && batch.prediction.numel() == batch.target.numel(),
        "[{}] expected predictions f32 of as many targets, got {} of {}", who, to_string(batch.prediction.type()),
        to_string(batch.target.type()));
}

std::vector<double> numbers_of(const Tensor& tensor) { return tensor.to_vector(); }

double ratio(double sum, double count) { return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN(); }

}  // namespace starling::train
