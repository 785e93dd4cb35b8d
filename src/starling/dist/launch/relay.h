#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "starling/base/file.h"

namespace starling::dist {

// Output shared by the lines of all ranks and a progress line drawn by one of them.
class Console {
 public:
  explicit Console(int fd) : fd_(fd) {}

  void line(std::string_view text);   // a whole line; clears an unfinished drawn line first
  void draw(std::string_view bytes);  // raw bytes

 private:
  void write(std::string_view bytes);

  int fd_;
  bool drawn_ = false;  // the cursor is behind an unfinished line
};

// Forwards one output stream of one rank line by line, prefixed with the rank, and keeps its last lines.
class Relay {
 public:
  static constexpr std::size_t kKept = 20;            // last lines kept
  static constexpr std::size_t kLongest = 16 * 1024;  // bytes per line; longer lines are split

  Relay(Console& console, int rank, bool drawn) : console_(&console), rank_(rank), drawn_(drawn) {}

  // Reads available bytes. False: the other side has closed.
  bool read(const UniqueFd& from);
  void finish();  // flushes an unfinished line

  const std::deque<std::string>& tail() const { return tail_; }

 private:
  void take(std::string_view bytes);
  void end_line();

  Console* console_;
  int rank_;
  bool drawn_;  // forwarded raw: may contain a progress line
  std::string unfinished_;
  std::deque<std::string> tail_;
};

}  // namespace starling::dist
