#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/tensor/tensor.h"
#include "starling/train/checkpoint/sealed_json.h"

namespace starling {

// One tensor that a model takes or gives: the batch axis comes before `sample` and is free.
struct ModelField {
  std::string name;
  DType dtype = DType::f32;
  Shape sample{};
  friend bool operator==(const ModelField&, const ModelField&) = default;
};

// What a saved model takes and gives, and what is needed to feed it and to read its answers. Data only.
struct ModelSignature {
  std::vector<ModelField> inputs{};
  std::vector<ModelField> outputs{};
  std::string task{};  // what it was trained for, by the names of train/objective.h: classify, next_token, …
  std::vector<std::string> class_names{};
  // What was done to raw samples before the network saw them: transforms by the names of data/transform.h, in order.
  nlohmann::json transforms = nlohmann::json::array();
  nlohmann::json tokenizer{};                       // of the tokens it reads; null: none
  nlohmann::json target_tokenizer{};                // of those it writes, where they are others
  nlohmann::json about = nlohmann::json::object();  // where it came from: the job, the step, metrics; nothing needs it
  friend bool operator==(const ModelSignature&, const ModelSignature&) = default;
};

// model.json: what a saved model consists of.
struct ModelManifest {
  std::string graph{};  // names of two of the files
  std::string weights{};
  std::vector<ListedFile> files{};
  ModelSignature signature{};
};

inline constexpr int kModelVersion = 1;

std::string format_model_manifest(const ModelManifest& manifest);  // carries a checksum of itself
// Throws "[model] <name>: expected …, got …" on anything but a sound manifest of a version known here.
ModelManifest parse_model_manifest(const std::string& text, const std::string& name);

}  // namespace starling
