#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/train/checkpoint/sealed_json.h"

namespace starling::train {

inline constexpr int kCheckpointVersion = 1;

// Contents of a checkpoint; written last, so that a checkpoint with a manifest is complete.
struct Manifest {
  std::int64_t step = 0;
  std::vector<ListedFile> files;
  nlohmann::json extra = nlohmann::json::object();
};

// JSON with a checksum of itself, so that damage to the manifest is detected.
std::string format_manifest(const Manifest& manifest);

// Throws "[checkpoint] <name>: expected …, got …" on anything but an intact manifest of a known version.
Manifest parse_manifest(const std::string& text, const std::string& name);

}  // namespace starling::train
