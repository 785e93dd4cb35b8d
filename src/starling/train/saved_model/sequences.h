#pragma once

#include <string>
#include <utility>
#include <vector>

#include "starling/train/saved_model/saved_model.h"

namespace starling {

// Models that read one text and write another: tokens i64[n, s] → tokens i64[n, t], with a tokenizer for each. Id 0
// fills up, 2 ends what is written.
bool reads_and_writes_text(const ModelSignature& signature);

// Each text and what the model makes of it. Throws when a text has more tokens than the model reads, or one that it
// does not know.
std::vector<std::pair<std::string, std::string>> translate_texts(SavedModel& model,
                                                                 const std::vector<std::string>& texts);

}  // namespace starling
