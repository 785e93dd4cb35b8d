#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "starling/tensor/tensor.h"

namespace starling::data {

// Header of an .npy file.
struct NpyHeader {
  TensorType type{};
  bool fortran_order = false;  // column-major: the first axis is contiguous
  bool swapped = false;        // elements are in non-native byte order
  std::size_t data_begin = 0;
};

// Parses the header at the start of `file`; lengths are checked before anything is allocated from them. Throws "[npy]
// <name>: expected …, got …".
NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& name);

// Header of a contiguous row-major array, padded so that the data begins at a multiple of 64.
std::string format_npy_header(const TensorType& type);

}  // namespace starling::data
