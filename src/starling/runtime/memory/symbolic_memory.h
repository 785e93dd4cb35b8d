#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "starling/runtime/execution/executable.h"
#include "starling/runtime/execution/lane_clock.h"

namespace starling::runtime {

// Symbolic content of a byte: byte `at` of the value `token`.
struct Content {
  int token = -1;
  std::int64_t at = 0;
  friend bool operator==(const Content&, const Content&) = default;
};

// An access by an instruction: its lane, its position, and the vector clock at its start.
struct Access {
  int lane = 0;
  int position = 0;  // within the lane
  const LaneClock& start;
};

// Range of memory that tracks the content of its bytes and their last accesses.
class SymbolicMemory {
 public:
  SymbolicMemory(std::int64_t bytes, int token);

  // Records a read of bytes [begin, end). Nothing if their writer has surely ended; otherwise a description of the
  // race.
  std::optional<std::string> read(std::int64_t begin, std::int64_t end, const Access& access);
  // Records a write of `content`. Nothing if all earlier accesses have surely ended; otherwise a description of the
  // race.
  std::optional<std::string> write(std::int64_t begin, std::int64_t end, const Content& content, const Access& access);
  // First byte in [begin, end) that does not hold `content`, and what it holds.
  std::optional<std::pair<std::int64_t, Content>> differs(std::int64_t begin, std::int64_t end,
                                                          const Content& content) const;
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Piece {
    std::int64_t end = 0;
    Content content;
    LaneClock written;  // clocks of the writes and of all accesses; empty: none yet
    LaneClock touched;
  };
  void cut(std::int64_t at);
  static void note(LaneClock& clock, const Access& access);

  std::int64_t bytes_;
  std::map<std::int64_t, Piece> pieces_;
};

}  // namespace starling::runtime
