#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/train/saved_model/signature.h"

namespace starling::cli {

// Predictions for one batch, row by row.
struct Predictions {
  std::vector<std::string> names;  // names of the samples
  Tensor values;                   // [n, …] f32: class probabilities, or the raw outputs
  bool classes = false;
};

// Converts a model's output to predictions; class logits become probabilities.
Predictions make_predictions(const ModelSignature& signature, std::vector<std::string> names, const Tensor& output);

// One line per sample: the `top` most likely classes with probabilities, or the values (truncated if many).
std::string to_text(const Predictions& predictions, const ModelSignature& signature, std::int64_t top);
nlohmann::ordered_json to_json(const Predictions& predictions, const ModelSignature& signature, std::int64_t top);
std::string to_csv(const Predictions& predictions, const ModelSignature& signature);

// Writes .npy, .csv or .json, by the file name's extension; refuses others.
void write_predictions(const std::string& file, const Predictions& predictions, const ModelSignature& signature,
                       std::int64_t top);
// Throws a UsageError unless the file name has one of these extensions.
void check_output_name(const std::string& file, const std::vector<std::string>& extensions);
inline std::vector<std::string> array_extensions() { return {".npy", ".csv", ".json"}; }
inline std::vector<std::string> text_extensions() { return {".txt", ".json"}; }

}  // namespace starling::cli
