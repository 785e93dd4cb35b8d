#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "starling/base/file/file.h"

namespace starling::dist {

// Output shared by the lines of all ranks and a progress line drawn by one of them. A thread of its own writes, so that
// a reader that has stopped reading (`| less`, Ctrl-S) never holds up the caller; the descriptor's flags, which a
// terminal shares with other programs, stay as they are. Output that cannot be written is dropped: a vanished reader
// must not end the run.
class Console {
 public:
  static constexpr std::size_t kRoom = 256 * 1024;  // bytes kept for a slow reader before full() says so

  explicit Console(int fd);
  ~Console();  // does not wait: what is unwritten is given up (flush)
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void line(std::string_view text);              // a whole line; clears an unfinished drawn line first
  void draw(std::string_view bytes);             // raw bytes
  std::int64_t lines() const { return lines_; }  // ended so far

  // True while so much is unwritten that callers should stop producing. Advice: nothing is refused.
  bool full() const;

  // Waits until all is written, the reader has taken nothing for `stuck`, or give_up() says so, which is asked every 20
  // ms (null: never). True: all is written.
  bool flush(std::chrono::milliseconds stuck, const std::function<bool()>& give_up = {});

 private:
  struct Queue;

  std::shared_ptr<Queue> queue_;  // shared with the writing thread, which may outlive this object in a blocked write
  bool drawn_ = false;            // the cursor is behind an unfinished line
  std::int64_t lines_ = 0;
};

// Forwards one output stream of one rank line by line, prefixed with the rank, and keeps its last lines.
class OutputForwarder {
 public:
  static constexpr std::size_t kKept = 20;            // last lines kept
  static constexpr std::size_t kLongest = 16 * 1024;  // bytes per line; longer lines are split
  static constexpr std::size_t kOneRound = 64 * 1024;

  OutputForwarder(Console& console, int rank, bool drawn) : console_(&console), rank_(rank), drawn_(drawn) {}

  // Reads available bytes, about kOneRound at most: a rank that prints without end must not keep its reader. False: the
  // other side has closed.
  bool read(const UniqueFd& from);
  // Reads what lies in the pipe at this moment, however slow the console's reader is: the last lines of a rank that has
  // ended. At most what a pipe holds.
  void read_rest(const UniqueFd& from);
  bool held_up() const { return console_->full(); }
  void finish();  // flushes an unfinished line

  const std::deque<std::string>& tail() const { return tail_; }
  // True if the last of them is also the last line of the console.
  bool spoke_last() const { return !tail_.empty() && last_ == console_->lines(); }

 private:
  bool read(const UniqueFd& from, std::size_t most);
  void take(std::string_view bytes);
  void end_line();

  Console* console_;
  int rank_;
  bool drawn_;  // forwarded raw: may contain a progress line
  std::string unfinished_;
  std::deque<std::string> tail_;
  std::int64_t last_ = -1;  // line of the console at which the tail ends
};

}  // namespace starling::dist
