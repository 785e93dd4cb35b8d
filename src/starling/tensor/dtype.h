#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace starling {

enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, u8, boolean };

inline constexpr int kDTypeCount = 8;

constexpr std::size_t size_of(DType dtype) {
  constexpr std::size_t sizes[kDTypeCount] = {8, 4, 2, 2, 8, 4, 1, 1};
  return sizes[static_cast<int>(dtype)];
}

constexpr std::string_view name(DType dtype) {
  constexpr std::string_view names[kDTypeCount] = {"f64", "f32", "f16", "bf16", "i64", "i32", "u8", "bool"};
  return names[static_cast<int>(dtype)];
}

constexpr std::optional<DType> parse_dtype(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (name(static_cast<DType>(i)) == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

constexpr bool is_float(DType dtype) { return static_cast<int>(dtype) <= static_cast<int>(DType::bf16); }

// The dtype that holds both operands of a mixed expression: a float beats an integer, wider beats narrower; f16 with
// bf16 is f32, since neither holds the other.
constexpr DType promote(DType a, DType b) {
  if (a == b) return a;
  if ((a == DType::f16 && b == DType::bf16) || (a == DType::bf16 && b == DType::f16)) return DType::f32;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  return static_cast<int>(a) < static_cast<int>(b) ? a : b;
}

}  // namespace starling
