#pragma once

#include <string>
#include <string_view>

namespace starling {

// Any bytes as text that JSON can hold, and back: UTF-8 stays as it is, except that a byte that is no part of any (and
// U+FFFD itself) becomes U+FFFD and two hexadecimal digits a byte.
std::string text_of_bytes(std::string_view bytes);
std::string bytes_of_text(std::string_view text);

}  // namespace starling
