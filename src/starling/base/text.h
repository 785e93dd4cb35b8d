#pragma once

#include <string>
#include <string_view>

namespace starling {

// The text in double quotes, with a backslash before quotes and backslashes of its own.
std::string in_quotes(std::string_view text);

// The text without `blanks` at its ends.
std::string_view trimmed(std::string_view text, std::string_view blanks = " ");

// The text as a cell of a Markdown table, where a bar ends the cell.
std::string markdown_cell(std::string_view text);

}  // namespace starling
