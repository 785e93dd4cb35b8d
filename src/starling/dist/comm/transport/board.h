#pragma once

#include <cstddef>
#include <vector>

#include "starling/dist/comm/standing.h"
#include "starling/dist/comm/transport/transport.h"

namespace starling {

// What the ranks of one group over a transport tell of themselves: messages on a channel of their own that nobody waits
// for. One to each peer is under way, the latest waits behind it. Used by one thread at a time. The buffers lie here,
// so the board must outlive the transport.
class StandingBoard {
 public:
  // ranks: of the group, as the transport numbers them; rank: this one, in the group.
  StandingBoard(std::vector<int> ranks, int rank, std::uint32_t channel);

  void tell(Transport& transport, const Standing& standing);
  Standing heard(Transport& transport, int rank);

 private:
  struct Peer {
    std::vector<std::byte> in, out, next;
    Transport::Transfer receiving = 0, sending = 0;
    bool listens = false, sends = false, waits = false;  // waits: next is to be sent
    bool gone = false;                                   // no more comes from it
    Standing last;
  };

  void move(Transport& transport, int rank, Peer& peer);

  const std::vector<int> ranks_;
  const int rank_;
  const std::uint32_t channel_;
  std::vector<Peer> peers_;
  std::vector<std::vector<std::byte>> farewells_;  // kept until the transport has gone
};

}  // namespace starling
