#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/tensor/tensor.h"
#include "starling/train/checkpoint/sealed_json.h"

namespace starling {

// One input or output of a model: `sample` is its shape without the free batch axis.
struct ModelField {
  std::string name;
  DType dtype = DType::f32;
  Shape sample{};
  friend bool operator==(const ModelField&, const ModelField&) = default;
};

// Inputs and outputs of a saved model, and what is needed to feed it and interpret its outputs. Data only.
struct ModelSignature {
  std::vector<ModelField> inputs{};
  std::vector<ModelField> outputs{};
  std::string task{};  // training objective, by the names of train/objective.h: classify, next_token, …
  std::vector<std::string> class_names{};
  std::vector<std::string> target_names{};  // of the numbers that a regression predicts; may be empty
  // How a file or row of a user becomes a raw sample, by the kinds of data/raw/raw.h; null: not described.
  nlohmann::json raw{};
  // Transforms applied to raw samples before the network, by the names of data/transform.h, in order.
  nlohmann::json transforms = nlohmann::json::array();
  nlohmann::json tokenizer{};                       // of the input tokens; null: none
  nlohmann::json target_tokenizer{};                // of the output tokens, if different
  nlohmann::json about = nlohmann::json::object();  // origin: job, step, metrics; informational
  friend bool operator==(const ModelSignature&, const ModelSignature&) = default;
};

// Contents of model.json.
struct ModelManifest {
  std::string graph{};  // file names
  std::string weights{};
  std::vector<train::ListedFile> files{};
  ModelSignature signature{};
};

inline constexpr int kModelVersion = 1;

std::string format_model_manifest(const ModelManifest& manifest);  // includes a checksum of itself
// Throws "[model] <name>: expected …, got …" on anything but an intact manifest of a known version.
ModelManifest parse_model_manifest(const std::string& text, const std::string& name);

}  // namespace starling
