#include "starling/nn/sequence.h"

#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/embedding.h"
#include "starling/ops/random.h"
#include "starling/ops/reduce.h"
#include "starling/ops/rnn.h"
#include "starling/ops/shape_ops.h"
#include "starling/ops/views.h"

namespace starling::nn {

Embedding::Embedding(const EmbeddingOptions& o) {
  check(o.vocabulary > 0 && o.width > 0, "[Embedding] expected sizes of at least 1, got vocabulary {} and width {}",
        o.vocabulary, o.width);
  weight_ = &add_parameter("weight", normal({o.vocabulary, o.width}, {.stddev = o.stddev}));
}

Tensor Embedding::forward(const Tensor& ids) { return embedding(ids, *weight_); }

Tensor TimeFirst::forward(const Tensor& x) { return swapaxes(x, 0, 1); }

Lstm::Lstm(const LstmOptions& o) {
  check(o.in > 0 && o.hidden > 0, "[Lstm] expected sizes of at least 1, got in {} and hidden {}", o.in, o.hidden);
  const double bound = 1 / std::sqrt(static_cast<double>(o.hidden));
  const auto begin = [&](const Shape& shape) { return uniform(shape, {.low = -bound, .high = bound}); };
  w_ih_ = &add_parameter("w_ih", begin({4 * o.hidden, o.in}));
  w_hh_ = &add_parameter("w_hh", begin({4 * o.hidden, o.hidden}));
  b_ih_ = &add_parameter("b_ih", begin({4 * o.hidden}));
  b_hh_ = &add_parameter("b_hh", begin({4 * o.hidden}));
}

Tensor Lstm::forward(const Tensor& x) {
  const RnnWeights weights{*w_ih_, *w_hh_, *b_ih_, *b_hh_};
  return lstm(x, {&weights, 1}).y;
}

Tensor MeanOverTime::forward(const Tensor& x) { return mean(x, {.axes = {0}}); }

}  // namespace starling::nn
