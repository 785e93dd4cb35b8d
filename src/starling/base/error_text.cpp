#include "starling/base/error_text.h"

#include "starling/base/error.h"

namespace starling {

std::string without_rank(const std::string& message) {
  if (thread_rank() < 0) return message;
  const std::string prefix = fmt::format("[rank {}] ", thread_rank());
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

}  // namespace starling
