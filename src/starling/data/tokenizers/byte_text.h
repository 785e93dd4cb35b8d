#pragma once

#include <string>
#include <string_view>

namespace starling::data {

// Encodes any bytes as valid UTF-8 for JSON, and back. Valid UTF-8 is kept; each invalid byte (and each byte of U+FFFD
// itself) becomes U+FFFD and two hexadecimal digits.
std::string text_of_bytes(std::string_view bytes);
std::string bytes_of_text(std::string_view text);

}  // namespace starling::data
