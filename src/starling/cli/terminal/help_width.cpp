#include "starling/cli/terminal/help_width.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace starling::cli {
namespace {

constexpr std::size_t kDescription = 30;  // column where CLI11 begins descriptions

// Column in which the rest of a line goes on.
std::size_t indent_of(const std::string& line) {
  const bool described = line.size() > kDescription && line.compare(kDescription - 2, 2, "  ") == 0;
  return described ? kDescription : std::min(line.find_first_not_of(' '), line.size());
}

}  // namespace

std::string fitted(const std::string& line, std::size_t indent) {
  const std::size_t columns = help_columns();
  return columns == 0 ? line : wrapped(line, columns, indent);
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
