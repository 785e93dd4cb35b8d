#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling {

inline constexpr std::uint64_t kSafetensorsMostHeader = 100'000'000;
inline constexpr std::size_t kSafetensorsMostTensors = 1'000'000;

struct SafetensorsEntry {
  std::string name;
  TensorType type{};
  std::uint64_t begin = 0;  // bytes, from the start of the data
  std::uint64_t end = 0;
};

// What stands before the data of a safetensors file: 8 bytes of length, then JSON.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of the data, which they cover without gap or overlap
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  // in the file
};

// Reads and checks the header at the start of `file`, the whole file's bytes; nothing is allocated from a length that
// was not checked first. Throws "[safetensors] <name>: expected …, got …".
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& name);

// Length and JSON of a file with these tensors, laid out as given (begin and end are set here). Padded with spaces so
// that the data begins at a multiple of 64.
std::string format_safetensors_header(SafetensorsHeader& header);

}  // namespace starling
