#include "starling/base/error.h"

namespace starling {
namespace {

thread_local int current_rank = -1;

std::string with_rank(const std::string& message) {
  if (current_rank < 0) return message;
  return fmt::format("[rank {}] {}", current_rank, message);
}

}  // namespace

Error::Error(const std::string& message) : std::runtime_error(with_rank(message)) {}

void set_thread_rank(int rank) { current_rank = rank; }

int thread_rank() { return current_rank; }

}  // namespace starling
