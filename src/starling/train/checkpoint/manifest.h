#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/train/checkpoint/sealed_json.h"

namespace starling {

inline constexpr int kCheckpointVersion = 1;

// What a checkpoint consists of; written last, so that a checkpoint with a manifest is whole.
struct Manifest {
  std::int64_t step = 0;
  std::vector<ListedFile> files;
  nlohmann::json extra = nlohmann::json::object();
};

// JSON that carries a checksum of itself: a damaged manifest is found out like a damaged file.
std::string format_manifest(const Manifest& manifest);

// Throws "[checkpoint] <name>: expected …, got …" on anything but a sound manifest of a version known here.
Manifest parse_manifest(const std::string& text, const std::string& name);

}  // namespace starling
