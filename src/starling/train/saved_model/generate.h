#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "starling/train/saved_model/saved_model.h"

namespace starling {

struct GenerateOptions {
  std::int64_t tokens = 100;  // to add
  double temperature = 1;     // 0: always the likeliest
  std::int64_t top_k = 0;     // draw among the k likeliest only; 0: among all
  std::uint64_t seed = 1;
};

// Goes on with token ids by a language model: tokens i64[n, t] → logits [n, t, vocabulary] of the next. It sees the
// last t tokens; a place never depends on those after it, so that shorter beginnings are filled up with zeros. Each new
// token is told at once. Throws when the model is no such thing and when the beginning is empty.
std::vector<std::int64_t> generate(SavedModel& model, std::vector<std::int64_t> begin, const GenerateOptions& options,
                                   const std::function<void(std::int64_t token)>& tell = {});

// Which of the logits is drawn with a uniform number in [0, 1).
std::int64_t draw_token(const float* logits, std::int64_t count, const GenerateOptions& options, double uniform);

}  // namespace starling
