#include "starling/cli/terminal/fit_table.h"

#include <algorithm>
#include <numeric>

#include "starling/cli/terminal/help_width.h"

namespace starling::cli {
namespace {

constexpr std::size_t kLeast = 12;  // columns that a broken cell needs
constexpr std::size_t kGap = 2;     // between two columns

using Widths = std::vector<std::size_t>;

Widths widths_of(const train::TextTable& table) {
  Widths widths;
  for (std::size_t i = 0; i < table.head.size(); ++i) {
    widths.push_back(text_width(table.head[i]));
    for (const auto& row : table.rows) widths[i] = std::max(widths[i], text_width(row[i]));
  }
  return widths;
}

std::size_t total(const Widths& widths) {
  return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
}

// Narrows the widest of the breakable columns until the table fits or nothing is left to narrow.
void narrow(Widths& widths, std::size_t columns, const std::vector<std::size_t>& breakable) {
  while (total(widths) > columns) {
    const auto widest = *std::max_element(breakable.begin(), breakable.end(),
                                          [&](std::size_t a, std::size_t b) { return widths[a] < widths[b]; });
    if (widths[widest] <= kLeast) return;
    --widths[widest];
  }
}

// Bytes of a text that go on one line: up to the last space or comma that fits, else as many letters as fit.
std::size_t cut_of(const std::string& text, std::size_t room) {
  std::size_t fits = 0, best = 0;
  for (std::size_t letters = 0; letters < room && fits < text.size(); ++letters) {
    ++fits;
    while (fits < text.size() && (static_cast<unsigned char>(text[fits]) & 0xc0) == 0x80) ++fits;  // UTF-8
    if (fits == text.size() || text[fits] == ' ' || text[fits - 1] == ',') best = fits;
  }
  return best > 0 ? best : fits;
}

std::vector<std::string> lines_of(std::string text, std::size_t room) {
  std::vector<std::string> lines;
  while (text_width(text) > room) {
    const std::size_t cut = cut_of(text, room);
    lines.push_back(text.substr(0, cut));
    text.erase(0, std::min(text.find_first_not_of(' ', cut), text.size()));
  }
  lines.push_back(std::move(text));
  return lines;
}

// The lines that a row becomes.
std::vector<std::vector<std::string>> broken(const std::vector<std::string>& row, const Widths& widths) {
  std::vector<std::vector<std::string>> made;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto lines = lines_of(row[i], widths[i]);
    if (made.size() < lines.size()) made.resize(lines.size(), std::vector<std::string>(row.size()));
    for (std::size_t line = 0; line < lines.size(); ++line) made[line][i] = lines[line];
  }
  return made;
}

}  // namespace

std::string fit_table(const train::TextTable& table, std::size_t columns, const std::vector<std::size_t>& breakable) {
  Widths widths = widths_of(table);
  if (columns == 0 || breakable.empty() || total(widths) <= columns) return to_text(table);
  narrow(widths, columns, breakable);
  train::TextTable made{.head = table.head, .right = table.right};
  for (const auto& row : table.rows) {
    for (auto& line : broken(row, widths)) made.rows.push_back(std::move(line));
  }
  return to_text(made);
}

}  // namespace starling::cli
