#include "starling/nn/dropout.h"

#include <cmath>

#include "starling/base/error.h"
#include "starling/nn/near.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/random.h"

namespace starling::nn {
namespace {

double probability(const char* who, double p) {
  check(p >= 0 && p < 1, "[{}] expected a probability in [0, 1), got {}", who, p);
  return p;
}

// 1 / (1 - p) with probability 1 - p, else 0.
Tensor keeps(const Shape& shape, const Tensor& like, double p) {
  return dropout(near(full(shape, 1, like.dtype()), like), p);
}

}  // namespace

Dropout::Dropout(double p) : p_(probability("Dropout", p)) {}
Tensor Dropout::forward(const Tensor& x) { return training() && p_ > 0 ? dropout(x, p_) : x; }

ChannelDropout::ChannelDropout(const DropoutOptions& o) : p_(probability("ChannelDropout", o.p)) {}
Tensor ChannelDropout::forward(const Tensor& x) {
  if (x.rank() < 2) fail("[ChannelDropout] expected x [n, c, ...], got {}", to_string(x.type()));
  if (!training() || p_ == 0) return x;
  Shape shape = Shape::filled(x.rank(), 1);
  shape[0] = x.size(0);
  shape[1] = x.size(1);
  return mul(x, keeps(shape, x, p_));
}

AlphaDropout::AlphaDropout(const DropoutOptions& o) : p_(probability("AlphaDropout", o.p)) {}
Tensor AlphaDropout::forward(const Tensor& x) {
  if (!training() || p_ == 0) return x;
  constexpr double lowest = -1.0507009873554804934193349852946 * 1.6732632423543772848170429916717;
  const double scale = 1 / std::sqrt((1 - p_) * (1 + p_ * lowest * lowest));
  const Tensor kept = mul(keeps(x.shape(), x, p_), 1 - p_);
  const Tensor mixed = add(mul(x, kept), mul(sub(1, kept), lowest));
  return add(mul(mixed, scale), -scale * p_ * lowest);
}

GaussianNoise::GaussianNoise(const GaussianNoiseOptions& o) : stddev_(o.stddev) {
  check(o.stddev >= 0, "[GaussianNoise] expected a deviation of at least 0, got {}", o.stddev);
}
Tensor GaussianNoise::forward(const Tensor& x) {
  if (!training() || stddev_ == 0) return x;
  return add(x, near(normal(x.shape(), {.stddev = stddev_, .dtype = x.dtype()}), x));
}

}  // namespace starling::nn
