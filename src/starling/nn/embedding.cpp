#include "starling/nn/embedding.h"

#include <cmath>

#include "starling/base/error.h"
#include "starling/nn/deferred_weights.h"
#include "starling/nn/near.h"
#include "starling/nn/shared_weight.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/embedding.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/rotary.h"
#include "starling/ops/api/slice.h"
#include "starling/ops/api/state.h"

namespace starling::nn {
namespace {

Tensor table(const char* who, std::int64_t rows, std::int64_t width, double stddev, const Init& init) {
  check(rows > 0 && width > 0, "[{}] expected sizes of at least 1, got {} rows and width {}", who, rows, width);
  return initial({rows, width}, init.kind == InitKind::standard ? Init::normal(stddev) : init);
}

void clear_row(const Tensor& table, std::optional<std::int64_t> row, const char* who) {
  if (!row) return;
  check(*row >= 0 && *row < table.size(0), "[{}] expected a padding row below {}, got {}", who, table.size(0), *row);
  if (auto* deferred = DeferredWeights::innermost(); deferred && deferred->holds(table))
    return deferred->clear_row(table, *row);
  float* values = table.data<float>() + *row * table.size(1);
  std::fill(values, values + table.size(1), 0.0F);
}

}  // namespace

Embedding::Embedding(const EmbeddingOptions& o) : padding_(o.padding), sparse_(o.sparse) {
  weight_ = &add_parameter("weight", table("Embedding", o.vocabulary, o.width, o.stddev, o.init));
  clear_row(*weight_, o.padding, "Embedding");
}

void Embedding::share_weight(const Tensor& parameter) { nn::share_weight(*weight_, parameter, "Embedding"); }

Tensor Embedding::forward(const Tensor& ids) {
  return embedding(ids, *weight_, {.padding_idx = padding_, .sparse = sparse_});
}

EmbeddingBag::EmbeddingBag(const EmbeddingBagOptions& o) : options_(o) {
  weight_ = &add_parameter("weight", table("EmbeddingBag", o.vocabulary, o.width, o.stddev, o.init));
  clear_row(*weight_, o.padding, "EmbeddingBag");
}

Tensor EmbeddingBag::forward(const Tensor& ids) { return forward_list({&ids, 1})[0]; }

TensorList EmbeddingBag::forward_list(std::span<const Tensor> xs) {
  check(!xs.empty() && xs.size() <= 3, "[EmbeddingBag] expected ids, and maybe offsets and factors, got {} inputs",
        xs.size());
  starling::EmbeddingBagOptions options{
      .mode = static_cast<BagMode>(options_.mode), .padding_idx = options_.padding, .sparse = options_.sparse};
  if (xs.size() > 1) options.offsets = xs[1];
  if (xs.size() > 2) options.per_sample_weights = xs[2];
  return {embedding_bag(xs[0], *weight_, options)};
}

LearnedPositions::LearnedPositions(const LearnedPositionsOptions& o) {
  weight_ = &add_parameter("weight", table("LearnedPositions", o.tokens, o.width, o.stddev, o.init));
}

Tensor LearnedPositions::forward(const Tensor& x) {
  const std::int64_t tokens = weight_->size(0), width = weight_->size(1);
  if (x.rank() != 3 || x.size(1) > tokens || x.size(2) != width)
    fail("[LearnedPositions] expected x [n, t, {}] of at most {} tokens, got {}", width, tokens, to_string(x.type()));
  return add(x, x.size(1) == tokens ? *weight_ : narrow(*weight_, 0, 0, x.size(1)));
}

SinusoidalPositions::SinusoidalPositions(const SinusoidalPositionsOptions& o) : base_(o.base) {
  check(o.base > 1, "[SinusoidalPositions] expected a base above 1, got {}", o.base);
}

Tensor SinusoidalPositions::forward(const Tensor& x) {
  if (x.rank() != 3) fail("[SinusoidalPositions] expected x [n, t, width], got {}", to_string(x.type()));
  const std::int64_t tokens = x.size(1), width = x.size(2);
  std::vector<double> rates, places;
  for (std::int64_t i = 0; i < width; ++i) {
    const std::int64_t even = i - i % 2;
    rates.push_back(std::pow(base_, -static_cast<double>(even) / static_cast<double>(width)));
  }
  places.reserve(static_cast<std::size_t>(tokens * width));
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::size_t i = 0; i < rates.size(); ++i) {
      const double angle = static_cast<double>(t) * rates[i];
      places.push_back(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return add(x, constant(near(from_doubles(places, {tokens, width}, x.dtype()), x)));
}

Tensor Rotary::forward(const Tensor& x) {
  return rotary(x, {.base = options_.base, .interleaved = options_.interleaved});
}

}  // namespace starling::nn
