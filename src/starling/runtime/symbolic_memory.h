#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "starling/runtime/executable.h"
#include "starling/runtime/lane_clock.h"

namespace starling {

// Byte `at` of what `token` names.
struct Content {
  int token = -1;
  std::int64_t at = 0;
  friend bool operator==(const Content&, const Content&) = default;
};

// One access: which instruction, on which lane, and what has ended when it starts.
struct Access {
  int lane = 0;
  int position = 0;  // within the lane
  const LaneClock& start;
};

// A stretch of memory that knows whose bytes it holds and who touched them last.
class SymbolicMemory {
 public:
  SymbolicMemory(std::int64_t bytes, int token);

  // Notes the access to bytes [begin, end). Empty if whoever wrote them has surely ended; what is wrong otherwise.
  std::optional<std::string> read(std::int64_t begin, std::int64_t end, const Access& access);
  // From now on they hold `content`. Empty if all who touched them have surely ended; what is wrong otherwise.
  std::optional<std::string> write(std::int64_t begin, std::int64_t end, const Content& content, const Access& access);
  // The first byte in [begin, end) that does not hold that content, and what it holds.
  std::optional<std::pair<std::int64_t, Content>> differs(std::int64_t begin, std::int64_t end,
                                                          const Content& content) const;
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Piece {
    std::int64_t end = 0;
    Content content;
    LaneClock written;  // up to the instructions that wrote and touched it; empty: none yet
    LaneClock touched;
  };
  void cut(std::int64_t at);
  static void note(LaneClock& clock, const Access& access);

  std::int64_t bytes_;
  std::map<std::int64_t, Piece> pieces_;
};

}  // namespace starling
