#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "starling/dist/comm/fingerprint.h"

namespace starling::dist {

// Cost of one rank's operations of one kind so far. bytes_sent: bytes of this rank's memory that other ranks read, or
// that were put on a wire for them; bytes_received: the reverse. messages: pieces handed over to one other rank each,
// counted when the last of their bytes has moved, or when they are given to the wire. steps: phases that had to follow
// each other, of those in which this rank took part. Where memory is common all are counted as bytes move: others may
// still read what this rank has sent when its own operation has ended. wait_ns: time spent inside wait().
struct OpCounters {
  std::uint64_t calls = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t steps = 0;
  std::uint64_t messages = 0;
  std::uint64_t wait_ns = 0;
};

struct Traffic {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t steps = 0;
  std::uint64_t messages = 0;
};

// Sequence numbers, counters and a flight recorder of the last kRecords operations. One per rank and group, shared by a
// backend and its decorators. Always on; allocates only at construction. Thread-safe.
class Journal {
 public:
  static constexpr std::size_t kRecords = 64;

  explicit Journal(int world)
      : sent_(static_cast<std::size_t>(world), 0), received_(static_cast<std::size_t>(world), 0) {}

  // Sequence number of the next collective of the group, or of the next message of an ordered pair.
  std::uint64_t next_sequence(CommOp op, int peer);
  std::uint64_t last_sequence(CommOp op, int peer) const;

  // Records a call; returns the record number to give to finished(). now: pass it if the caller has just read the
  // clock.
  std::uint64_t started(const Fingerprint& fingerprint, CommTime now = CommClock::now());
  void finished(std::uint64_t record, CommOp op, std::chrono::nanoseconds waited, CommTime now = CommClock::now());
  void moved(CommOp op, const Traffic& traffic);

  // Traffic that is counted elsewhere, where it moves: added to those of moved() whenever counters are read, until
  // stop_counting() takes their last values.
  using Counted = std::function<Traffic(CommOp)>;
  void count_with(Counted elsewhere);
  void stop_counting();

  OpCounters counters(CommOp op) const;
  OpCounters total() const;

  // Sequence number of the last collective that this rank saw end.
  std::uint64_t last_finished() const;

  // One line per operation, oldest first.
  std::string dump() const;
  // Lines of operations started but not seen to end, with their age.
  std::string waiting() const;

 private:
  struct Record {
    Fingerprint fingerprint;
    CommTime start = {};
    CommTime end = {};
    bool ended = false;
  };

  OpCounters counted(CommOp op) const;  // requires the mutex
  template <class Line>
  std::string lines(Line line) const;  // joins line(record, now) over all records, oldest first

  mutable std::mutex mutex_;
  std::uint64_t collectives_ = 0;
  std::vector<std::uint64_t> sent_, received_;
  std::uint64_t records_made_ = 0;
  std::uint64_t last_finished_ = 0;
  std::array<Record, kRecords> records_;
  std::array<OpCounters, kCommOpCount> counters_;
  Counted elsewhere_;
};

}  // namespace starling::dist
