#pragma once

#include <array>
#include <deque>
#include <vector>

#include "starling/dist/comm/shared/group_block.h"
#include "starling/dist/comm/shared/shared_world.h"

namespace starling::dist {

// One rank's messages in one group. A message ends on both sides when the receiver has it. Small messages are kept in
// the group's block, buffers in an arena are read in place by the receiver, others pass through a few chunks of the
// pair. A pair has kSharedMessages slots; messages started while all are taken wait here for their turn.
class Messages {
 public:
  Messages(SharedWorld& world, GroupBlock block, int rank, int size);

  void post(const Call& call, std::uint64_t epoch);  // requires the world's mutex, like step
  bool step();
  bool completed(const Ticket& ticket) const;
  bool partner_arrived(const Ticket& ticket) const;

  // Fingerprint that this rank posted for the message.
  const Fingerprint& fingerprint(const Ticket& ticket) const;

 private:
  struct Pending {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    BufferLocation where = BufferLocation::nowhere;  // location of the sender's buffer
  };
  struct Started {
    Fingerprint fingerprint;
    Pending message;
  };
  // Messages from or to one other rank.
  struct Line {
    std::array<Pending, kSharedMessages> ring;
    std::deque<Started> waiting;  // for a slot
    std::uint64_t posted = 0, ended = 0;
    std::uint64_t chunks = 0;  // chunks moved so far
    std::size_t moved = 0;     // bytes moved of the current message
    bool agreed = false;       // fingerprints of the current message compared
  };

  Line& line(CommOp op, int peer) { return (op == CommOp::send ? to_ : from_)[static_cast<std::size_t>(peer)]; }
  const Line& line(CommOp op, int peer) const {
    return (op == CommOp::send ? to_ : from_)[static_cast<std::size_t>(peer)];
  }
  static bool has_slot(const Line& line, std::uint64_t sequence) {
    return sequence <= kSharedMessages || line.ended >= sequence - kSharedMessages;
  }
  void put(CommOp op, int peer, const Started& started);
  bool put_waiting(CommOp op, int peer);
  bool send(int peer, Line& line);
  bool receive(int peer, Line& line);
  bool agreed(int peer, Line& line);
  bool take(int peer, Line& line, Pending& message);
  void end(Line& line);

  SharedWorld& world_;
  GroupBlock block_;
  const int rank_, size_;
  std::vector<Line> to_, from_;  // by peer
  int outstanding_ = 0;
};

}  // namespace starling::dist
