#include "starling/cli/help_width.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace starling::cli {
namespace {

constexpr std::size_t kDescription = 30;  // column where CLI11 begins descriptions
constexpr std::size_t kLeastText = 20;    // columns that a description needs to be broken

// Column in which the rest of a line goes on.
std::size_t indent_of(const std::string& line) {
  const bool described = line.size() > kDescription && line.compare(kDescription - 2, 2, "  ") == 0;
  return described ? kDescription : std::min(line.find_first_not_of(' '), line.size());
}

}  // namespace

std::size_t text_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));  // UTF-8
}

std::string fitted(const std::string& line, std::size_t indent) {
  const std::size_t columns = help_columns();
  return columns == 0 ? line : wrapped(line, columns, indent);
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

std::size_t help_columns() {
  if (const char* told = std::getenv("COLUMNS")) return static_cast<std::size_t>(std::max(0, std::atoi(told)));
  return terminal_columns(STDOUT_FILENO);
}

std::size_t terminal_columns(int descriptor) {
  winsize size{};
  return isatty(descriptor) == 1 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string fit_help(const std::string& help, std::size_t columns) {
  if (columns == 0) return help;
  std::istringstream lines(help);
  std::string made;
  for (std::string line; std::getline(lines, line);)
    made += (line.starts_with("  starling ") ? line : wrapped(line, columns, indent_of(line))) + "\n";
  return made;
}

}  // namespace starling::cli
