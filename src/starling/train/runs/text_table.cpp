#include "starling/train/runs/text_table.h"

#include <algorithm>

namespace starling::train {
namespace {

// Characters, not bytes, of UTF-8.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string to_text(const TextTable& table) {
  std::vector<std::size_t> widths(table.head.size());
  const auto measure = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  };
  measure(table.head);
  for (const auto& row : table.rows) measure(row);
  std::string text;
  const auto write = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string room(widths[i] - width(row[i]), ' ');
      const bool right = i < table.right.size() && table.right[i];
      line += (i == 0 ? "" : "  ") + (right ? room + row[i] : row[i] + room);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  write(table.head);
  for (const auto& row : table.rows) write(row);
  return text;
}

}  // namespace starling::train
