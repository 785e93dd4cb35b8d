#pragma once

#include <cstdint>

namespace starling::kernels {

// Conversions of gradients to 16 bits for the wire and back, rounding to nearest even. Finite values beyond the range
// of f16 become its largest; infinities and NaN stay. One thread; any alignment.
void to_wire_f16(const float* from, std::uint16_t* to, std::int64_t n);
void to_wire_bf16(const float* from, std::uint16_t* to, std::int64_t n);
void from_wire_f16(const std::uint16_t* from, float* to, std::int64_t n);
void from_wire_bf16(const std::uint16_t* from, float* to, std::int64_t n);
void add_wire_f16(const std::uint16_t* from, float* to, std::int64_t n);  // to += from
void add_wire_bf16(const std::uint16_t* from, float* to, std::int64_t n);

}  // namespace starling::kernels
