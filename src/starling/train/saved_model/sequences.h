#pragma once

#include <string>
#include <utility>
#include <vector>

#include "starling/train/saved_model/saved_model.h"

namespace starling::train {

// True for sequence-to-sequence models: tokens i64[n, s] → tokens i64[n, t], with a tokenizer for each. Id 0 is
// padding, 2 ends the output.
bool reads_and_writes_text(const ModelSignature& signature);

// Pairs of each text and the model's output. Throws if a text has more tokens than the model reads, or an unknown one.
std::vector<std::pair<std::string, std::string>> translate_texts(SavedModel& model,
                                                                 const std::vector<std::string>& texts);

}  // namespace starling::train
