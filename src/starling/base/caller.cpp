#include "starling/base/caller.h"

#include <atomic>

namespace starling {
namespace {

std::atomic<CallerSource>& caller_source() {
  static std::atomic<CallerSource> source{nullptr};
  return source;
}

}  // namespace

void set_caller_source(CallerSource source) { caller_source().store(source); }

std::string foreign_caller() {
  const CallerSource source = caller_source().load();
  return source ? source() : std::string();
}

std::string caller(const SourceLocation& where) {
  std::string line = foreign_caller();
  return line.empty() ? std::string(where.file_name()) + ":" + std::to_string(where.line()) : line;
}

}  // namespace starling
