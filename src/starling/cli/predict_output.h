#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/train/saved_model/signature.h"

namespace starling::cli {

// What a model made of one batch, row by row, in the words of its task.
struct Predictions {
  std::vector<std::string> names;  // of the samples
  Tensor values;                   // [n, …] f32: probabilities of classes, or the outputs as they are
  bool classes = false;
};

// Logits of classes become probabilities.
Predictions make_predictions(const ModelSignature& signature, std::vector<std::string> names, const Tensor& output);

// One line a sample: the k likeliest classes with their probabilities, or the values (cut short where there are many).
std::string to_text(const Predictions& predictions, const ModelSignature& signature, std::int64_t top);
nlohmann::ordered_json to_json(const Predictions& predictions, const ModelSignature& signature, std::int64_t top);
std::string to_csv(const Predictions& predictions, const ModelSignature& signature);

// By the ending of the name: .npy, .csv or .json; refuses others.
void write_predictions(const std::string& file, const Predictions& predictions, const ModelSignature& signature,
                       std::int64_t top);
// Throws a UsageError unless the name ends with one of these.
void check_output_name(const std::string& file, const std::vector<std::string>& extensions);
inline std::vector<std::string> array_extensions() { return {".npy", ".csv", ".json"}; }
inline std::vector<std::string> text_extensions() { return {".txt", ".json"}; }

}  // namespace starling::cli
