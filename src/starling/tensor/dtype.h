#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace starling {

// i16, i8, u16, u32 and u64 are for storage and conversion; arithmetic on them goes through reference kernels.
enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean };

inline constexpr int kDTypeCount = 13;

constexpr std::size_t size_of(DType dtype) {
  constexpr std::size_t sizes[kDTypeCount] = {8, 4, 2, 2, 8, 4, 2, 1, 8, 4, 2, 1, 1};
  return sizes[static_cast<int>(dtype)];
}

constexpr std::string_view name(DType dtype) {
  constexpr std::string_view names[kDTypeCount] = {"f64", "f32", "f16", "bf16", "i64", "i32", "i16",
                                                   "i8",  "u64", "u32", "u16",  "u8",  "bool"};
  return names[static_cast<int>(dtype)];
}

constexpr std::optional<DType> parse_dtype(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (name(static_cast<DType>(i)) == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

constexpr bool is_float(DType dtype) { return dtype <= DType::bf16; }
constexpr bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
constexpr bool is_signed_integer(DType dtype) { return dtype >= DType::i64 && dtype <= DType::i8; }
constexpr bool is_unsigned_integer(DType dtype) { return dtype >= DType::u64 && dtype <= DType::u8; }
constexpr bool is_integer(DType dtype) { return dtype >= DType::i64 && dtype <= DType::u8; }

// Promoted dtype of a mixed expression: a float beats an integer, wider beats narrower; f16 with bf16 is f32, since
// neither holds the other. A signed and an unsigned integer give the narrowest signed one that holds both; u64 with a
// signed one is i64.
constexpr DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_half(a) && is_half(b)) return DType::f32;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_signed_integer(a) && is_unsigned_integer(b)) {
    if (size_of(a) > size_of(b)) return a;
    return size_of(b) == 1 ? DType::i16 : size_of(b) == 2 ? DType::i32 : DType::i64;
  }
  if (is_unsigned_integer(a) && is_signed_integer(b)) return promote(b, a);
  return a < b ? a : b;
}

}  // namespace starling
