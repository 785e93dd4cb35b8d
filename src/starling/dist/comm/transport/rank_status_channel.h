#pragma once

#include <cstddef>
#include <vector>

#include "starling/dist/comm/rank_status.h"
#include "starling/dist/comm/transport/transport.h"

namespace starling::dist {

// Statuses of the ranks of one group over a transport, exchanged on a channel of their own without blocking. One
// message per peer is in flight; only the latest status queues behind it. One thread at a time. Buffers lie here, so
// the channel must outlive the transport.
class RankStatusChannel {
 public:
  // ranks: transport ranks of the group; rank: this rank within the group.
  RankStatusChannel(std::vector<int> ranks, int rank, std::uint32_t channel);

  void tell(Transport& transport, const RankStatus& status);
  RankStatus heard(Transport& transport, int rank);

 private:
  struct Peer {
    std::vector<std::byte> in, out, next;
    Transport::Transfer receiving = 0, sending = 0;
    bool listens = false, sends = false, waits = false;  // waits: `next` is queued
    bool gone = false;                                   // nothing more will arrive
    RankStatus last;
  };

  void move(Transport& transport, int rank, Peer& peer);

  const std::vector<int> ranks_;
  const int rank_;
  const std::uint32_t channel_;
  std::vector<Peer> peers_;
  std::vector<std::vector<std::byte>> farewells_;  // kept alive until the transport is destroyed
};

}  // namespace starling::dist
