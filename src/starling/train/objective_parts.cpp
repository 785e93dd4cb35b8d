#include "starling/train/objective_parts.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/index.h"
#include "starling/ops/api/select.h"
#include "starling/ops/api/state.h"

namespace starling::train {
namespace {

Tensor integer(std::int64_t value) { return full({}, static_cast<double>(value), DType::i64); }

}  // namespace

void expect_fields(std::span<const Tensor> fields, std::size_t count, const char* who, const char* what) {
  if (fields.size() >= count) return;
  fail("[{}] expected batches of {} fields ({}), got {}", who, count, what, fields.size());
}

Tensor plain(const std::vector<double>& values, Device device) {
  return constant(to(from_doubles(values, {static_cast<std::int64_t>(values.size())}), device));
}

Tensor counted(const Tensor& labels, std::int64_t ignored) {
  return cast(not_equal(labels, integer(ignored)), DType::f32);
}

Tensor marked(const Tensor& labels, std::int64_t ignored) {
  return ignored < 0 ? labels : where(equal(labels, integer(ignored)), integer(-1), labels);
}

Tensor weighted_mean(const Tensor& sum, const Tensor& weight) {
  constexpr double kNothing = 1e-20;
  return div(sum, maximum(weight, kNothing));
}

Tensor label_weights(const Tensor& class_weights, const Tensor& labels, std::optional<std::int64_t> ignored) {
  if (!ignored) return take(class_weights, labels);
  const Tensor safe = where(equal(labels, integer(*ignored)), integer(0), labels);
  return mul(take(class_weights, safe), counted(labels, *ignored));
}

}  // namespace starling::train
