#include "starling/base/wrap.h"

#include <algorithm>
#include <sstream>

namespace starling {
namespace {

constexpr std::size_t kLeastText = 20;  // columns that a text needs to be broken

}  // namespace

std::size_t text_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::string wrapped(const std::string& line, std::size_t columns, std::size_t indent) {
  if (text_width(line) <= columns || indent + kLeastText > columns) return line;
  std::string made = line.substr(0, indent), row = made;
  std::istringstream words(line.substr(indent));
  bool begins = true;
  for (std::string word; words >> word; begins = false) {
    if (!begins && text_width(row) + 1 + text_width(word) > columns) {
      made += '\n';
      row = std::string(indent, ' ');
      made += row;
      begins = true;
    }
    made += (begins ? "" : " ") + word;
    row += (begins ? "" : " ") + word;
  }
  return made;
}

}  // namespace starling
