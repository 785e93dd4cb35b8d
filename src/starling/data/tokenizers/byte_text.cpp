#include "starling/data/tokenizers/byte_text.h"

#include <fmt/format.h>

#include <charconv>

#include "starling/base/error.h"
#include "starling/data/tokenizers/tokenizer.h"

namespace starling::data {
namespace {

constexpr std::string_view kMark = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return 1;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 1;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool outside = (first == 0xED && byte(1) >= 0xA0) || (first == 0xF4 && byte(1) >= 0x90);
  return overlong || outside ? 1 : size;
}

std::string text_of_bytes(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t size = character_size(bytes);
    const auto character = bytes.substr(0, size);
    if (character == kMark || (size == 1 && static_cast<unsigned char>(character[0]) >= 0x80)) {
      for (const char c : character) text += fmt::format("{}{:02x}", kMark, static_cast<unsigned char>(c));
    } else {
      text += character;
    }
    bytes.remove_prefix(size);
  }
  return text;
}

std::string bytes_of_text(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const auto mark = text.find(kMark);
    bytes += text.substr(0, mark);
    if (mark == std::string_view::npos) break;
    text.remove_prefix(mark + kMark.size());
    unsigned value = 0;
    const auto digits = text.substr(0, 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc() || end != digits.data() + 2)
      fail("expected two hexadecimal digits after U+FFFD, got '{}'", digits);
    bytes += static_cast<char>(value);
    text.remove_prefix(2);
  }
  return bytes;
}

}  // namespace starling::data
