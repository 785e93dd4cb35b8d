#include "starling/data/raw/warning.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "starling/base/error.h"

namespace starling::data {

void warn(const std::string& message) {
  const char* const clear = ::isatty(STDERR_FILENO) != 0 ? "\r\x1b[K" : "";  // of a progress line
  fmt::print(stderr, "{}starling: warning: {}\n", clear, message);
}

void warn_once_for_all_ranks(const std::string& message) {
  if (thread_rank() <= 0) warn(message);
}

}  // namespace starling::data
