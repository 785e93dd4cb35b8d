#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "starling/base/file.h"

namespace starling {

// Where lines of all ranks and a progress line that one of them draws go together.
class Console {
 public:
  explicit Console(int fd) : fd_(fd) {}

  void line(std::string_view text);   // a whole line; an unfinished one that was drawn makes room
  void draw(std::string_view bytes);  // as they are

 private:
  void write(std::string_view bytes);

  int fd_;
  bool drawn_ = false;  // the cursor stands behind something unfinished
};

// Takes one stream of one rank, hands it on line by line with the rank before each, and remembers the end of it.
class Relay {
 public:
  static constexpr std::size_t kKept = 20;            // lines
  static constexpr std::size_t kLongest = 16 * 1024;  // of a line; longer ones are cut into several

  Relay(Console& console, int rank, bool drawn) : console_(&console), rank_(rank), drawn_(drawn) {}

  // Reads what is there. False: the other side has closed it.
  bool read(const UniqueFd& from);
  void finish();  // an unfinished line counts, too

  const std::deque<std::string>& tail() const { return tail_; }

 private:
  void take(std::string_view bytes);
  void end_line();

  Console* console_;
  int rank_;
  bool drawn_;  // handed on as it comes: it may be a progress line
  std::string unfinished_;
  std::deque<std::string> tail_;
};

}  // namespace starling
