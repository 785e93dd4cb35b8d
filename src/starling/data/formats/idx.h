#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "starling/tensor/tensor.h"

namespace starling::data {

struct IdxOptions {
  std::uint64_t most_bytes = std::uint64_t{1} << 30;  // refuse arrays larger than this
};

// Reads an idx file of bytes (MNIST's format), plain or gzipped, into a u8 tensor. Throws "[idx] <file>: expected …,
// got …".
Tensor read_idx(const std::filesystem::path& path, const IdxOptions& options = {});

// Parses an idx file in memory; `name` stands for the file in error messages.
Tensor parse_idx(std::span<const std::byte> file, const std::string& name, const IdxOptions& options = {});

}  // namespace starling::data
