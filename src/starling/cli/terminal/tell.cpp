#include "starling/cli/terminal/tell.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "starling/cli/terminal/help_width.h"

namespace starling::cli {

void tell(const std::string& text) {
  constexpr std::size_t kIndent = 10;  // "starling: "
  fmt::print(stderr, "{}\n", wrapped("starling: " + text, terminal_columns(STDERR_FILENO), kIndent));
}

}  // namespace starling::cli
