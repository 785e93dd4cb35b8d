#include "starling/train/saved_model/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "starling/base/error.h"
#include "starling/data/transform.h"

namespace starling::train {
namespace {

void check_language_model(const ModelSignature& signature) {
  const bool fits = signature.inputs.size() == 1 && signature.inputs[0].dtype == DType::i64 &&
                    signature.inputs[0].sample.rank() == 1 && signature.outputs.size() == 1 &&
                    signature.outputs[0].dtype == DType::f32 && signature.outputs[0].sample.rank() == 2 &&
                    signature.outputs[0].sample[0] == signature.inputs[0].sample[0];
  check(fits, "[model] expected a language model, tokens i64[n, t] to logits f32[n, t, vocabulary], got another");
}

}  // namespace

std::int64_t draw_token(const float* logits, std::int64_t count, const GenerateOptions& options, double uniform) {
  if (options.temperature <= 0) return std::max_element(logits, logits + count) - logits;
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  if (options.top_k > 0 && options.top_k < count) {
    // The lower id wins ties, so that the choice is a function of the logits alone.
    std::partial_sort(order.begin(), order.begin() + options.top_k, order.end(), [&](std::int64_t a, std::int64_t b) {
      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    });
    order.resize(static_cast<std::size_t>(options.top_k));
  }
  const float largest = *std::max_element(logits, logits + count);
  std::vector<double> shares;
  for (const auto id : order) shares.push_back(std::exp((logits[id] - largest) / options.temperature));
  double left = uniform * std::accumulate(shares.begin(), shares.end(), 0.0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    left -= shares[i];
    if (left < 0) return order[i];
  }
  return order.back();
}

std::vector<std::int64_t> generate(SavedModel& model, std::vector<std::int64_t> begin, const GenerateOptions& options,
                                   const std::function<void(std::int64_t token)>& tell) {
  const ModelSignature& signature = model.signature();
  check_language_model(signature);
  check(!begin.empty(), "[model] expected at least one token to begin with, got none");
  const std::int64_t window = signature.inputs[0].sample[0];
  const std::int64_t vocabulary = signature.outputs[0].sample[1];
  for (const auto id : begin) {
    check(id >= 0 && id < vocabulary, "[model] expected token ids from 0 to {}, got {}", vocabulary - 1, id);
  }
  Draws draws({.seed = options.seed});
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const auto size = static_cast<std::int64_t>(begin.size());
    const std::int64_t seen = std::min(size, window);
    Tensor input = zeros({1, window}, DType::i64);
    std::copy(begin.end() - seen, begin.end(), input.data<std::int64_t>());
    const Tensor logits = model.run(input);
    const float* last = logits.data<float>() + (seen - 1) * vocabulary;
    begin.push_back(draw_token(last, vocabulary, options, draws.uniform()));
    if (tell) tell(begin.back());
  }
  return begin;
}

}  // namespace starling::train
