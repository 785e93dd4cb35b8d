#include "starling/base/error.h"

#include <fmt/format.h>

#include "starling/base/thread/thread_context.h"

namespace starling {
namespace {

std::string with_rank(const std::string& message) {
  if (thread_rank() < 0) return message;
  return fmt::format("[rank {}] {}", thread_rank(), message);
}

}  // namespace

Error::Error(const std::string& message) : std::runtime_error(with_rank(message)) {}

void set_thread_rank(int rank) { thread_context().rank = rank; }

void fail_with(fmt::string_view format, fmt::format_args args) { throw Error(fmt::vformat(format, args)); }

int thread_rank() { return thread_context().rank; }

}  // namespace starling
