#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::kernels {

// One line of 1-bit quantisation. Its wire form is two floats, the mean of the values below 0 and that of the others,
// and a bit for each value, set where it is not below 0, rounded up to whole bytes; the first value is the lowest bit.
constexpr std::size_t one_bit_bytes(std::int64_t n) { return 8 + static_cast<std::size_t>((n + 7) / 8); }

// Encodes v = x + residual, and leaves v - decoded in the residual; null: v = x, and nothing is left. One thread.
void encode_one_bit(const float* x, float* residual, std::int64_t n, std::byte* wire);
void decode_one_bit(const std::byte* wire, float* y, std::int64_t n);
void add_one_bit(const std::byte* wire, float* y, std::int64_t n);  // y += decoded

}  // namespace starling::kernels
