#pragma once

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"

namespace starling::zoo {

struct GptOptions {
  std::int64_t vocabulary = 65;
  std::int64_t tokens = 256;  // longest sequence
  std::int64_t width = 384;
  std::int64_t depth = 6;  // number of layers
  std::int64_t heads = 6;
  double dropout = 0;            // after the embeddings
  double attention_dropout = 0;  // of attention weights
  bool tied = false;             // the head's weights are those of the tokens' embedding
  static Settings settings();
};
// GPT-2, the smallest of its family; the vocabulary of 50257 is padded to a multiple of 64.
struct Gpt2Options : GptOptions {
  Gpt2Options();
};

// Causal transformer with pre-norm blocks: token ids i64[n, t] → logits [n, t, vocabulary] of the next token.
nn::Sequential gpt(const GptOptions& options = {});

}  // namespace starling::zoo
