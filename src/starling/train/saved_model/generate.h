#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "starling/train/saved_model/saved_model.h"

namespace starling::train {

struct GenerateOptions {
  std::int64_t tokens = 100;  // tokens to generate
  double temperature = 1;     // 0: always the most likely
  std::int64_t top_k = 0;     // sample among the k most likely; 0: among all
  std::uint64_t seed = 1;
};

// Continues a token sequence with a language model: tokens i64[n, t] → logits [n, t, vocabulary] of the next. The model
// sees the last t tokens; it must be causal, since shorter prompts are padded with zeros. `tell` gets each new token at
// once. Throws if the model has another signature or the prompt is empty.
std::vector<std::int64_t> generate(SavedModel& model, std::vector<std::int64_t> begin, const GenerateOptions& options,
                                   const std::function<void(std::int64_t token)>& tell = {});

// Index of the token drawn from the logits by a uniform number in [0, 1).
std::int64_t draw_token(const float* logits, std::int64_t count, const GenerateOptions& options, double uniform);

}  // namespace starling::train
