#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace starling {

// Columns of UTF-8 text, one per character.
std::size_t text_width(std::string_view text);

// Breaks a line that is longer between words; the rest goes on in column `indent`, up to which it stays as it is. A
// line with less than 20 columns left is not broken, nor is any where there are 0.
std::string wrapped(const std::string& line, std::size_t columns, std::size_t indent);

}  // namespace starling
