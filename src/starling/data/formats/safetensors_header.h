#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::data {

inline constexpr std::uint64_t kSafetensorsMostHeader = 100'000'000;
inline constexpr std::size_t kSafetensorsMostTensors = 1'000'000;

struct SafetensorsEntry {
  std::string name;
  TensorType type{};
  std::uint64_t begin = 0;  // byte offset from the start of the data
  std::uint64_t end = 0;
};

// Header of a safetensors file: 8 bytes of length, then JSON.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in data order; they cover the data without gap or overlap
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  // offset in the file
};

// Parses and checks the header; `file` is the whole file. Lengths are checked before anything is allocated from them.
// Throws "[safetensors] <name>: expected …, got …".
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& name);

// Formats the header of a file with these tensors in this order; sets begin and end of the entries. Padded with spaces
// so that the data begins at a multiple of 64.
std::string format_safetensors_header(SafetensorsHeader& header);

}  // namespace starling::data
