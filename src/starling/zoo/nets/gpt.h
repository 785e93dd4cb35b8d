#pragma once

#include "starling/base/settings.h"
#include "starling/nn/module.h"

namespace starling::zoo {

struct GptOptions {
  std::int64_t vocabulary = 65;
  std::int64_t tokens = 256;  // the longest sequence
  std::int64_t width = 384;
  std::int64_t depth = 6;  // layers
  std::int64_t heads = 6;
  double dropout = 0;  // of the embeddings
  static Settings settings();
};
// Token ids i64[n, t] to logits [n, t, vocabulary] of the next: a causal transformer with pre-norm blocks.
nn::Sequential gpt(const GptOptions& options = {});

}  // namespace starling::zoo
