#pragma once

namespace starling {

// Line of the caller, as a default argument. (std::source_location is missing from clang 14, which runs the checks.)
struct SourceLocation {
  const char* file = "";
  unsigned line_number = 0;

  static constexpr SourceLocation current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
  const char* file_name() const { return file; }
  unsigned line() const { return line_number; }
};

}  // namespace starling
