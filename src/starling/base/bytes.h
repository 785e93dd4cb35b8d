#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace starling {

// memcpy and memset for memory that may have no address where there are no bytes; copying onto itself does nothing.
template <std::integral Count>
void copy_bytes(void* to, const void* from, Count bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
template <std::integral Count>
void zero_bytes(void* to, Count bytes) {
  if (bytes > 0) std::memset(to, 0, static_cast<std::size_t>(bytes));
}

// The same memory as text or as bytes.
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace starling
