#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "starling/tensor/tensor.h"

namespace starling {

// What stands before the data of a .npy file.
struct NpyHeader {
  TensorType type{};
  bool fortran_order = false;  // the first axis runs fastest
  bool swapped = false;        // the bytes of an element are in the order of other machines
  std::size_t data_begin = 0;
};

// Reads the header at the start of `file`; nothing is allocated from a length that was not checked. Throws "[npy]
// <name>: expected …, got …".
NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& name);

// The header of a dense row-major array, padded so that the data begins at a multiple of 64.
std::string format_npy_header(const TensorType& type);

}  // namespace starling
