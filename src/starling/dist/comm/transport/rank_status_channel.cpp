#include "starling/dist/comm/transport/rank_status_channel.h"

#include "starling/base/error.h"

namespace starling::dist {

RankStatusChannel::RankStatusChannel(std::vector<int> ranks, int rank, std::uint32_t channel)
    : ranks_(std::move(ranks)), rank_(rank), channel_(channel), peers_(ranks_.size()) {}

void RankStatusChannel::tell(Transport& transport, const RankStatus& status) {
  std::vector<std::byte> bytes(rank_status_bytes(static_cast<int>(ranks_.size())));
  write_rank_status(status, bytes);
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    if (static_cast<int>(r) == rank_ || peer.gone) continue;
    peer.next = bytes;
    peer.waits = true;
    move(transport, static_cast<int>(r), peer);
    // Last chance to send for a rank that leaves.
    if (status.state != RankStatus::State::left || !peer.waits || peer.gone) continue;
    farewells_.push_back(std::move(peer.next));
    try {
      (void)transport.send(ranks_[r], channel_, farewells_.back().data(), farewells_.back().size());
    } catch (const Error&) {
      peer.gone = true;
    }
  }
}

RankStatus RankStatusChannel::heard(Transport& transport, int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (rank != rank_ && !peer.gone) move(transport, rank, peer);
  return peer.last;
}

// Errors are ignored: operations that need a peer that has left report it themselves.
void RankStatusChannel::move(Transport& transport, int rank, Peer& peer) {
  const int to = ranks_[static_cast<std::size_t>(rank)];
  try {
    if (peer.sends && transport.test(peer.sending)) peer.sends = false;
    if (!peer.sends && peer.waits) {
      peer.out.swap(peer.next);
      peer.sending = transport.send(to, channel_, peer.out.data(), peer.out.size());
      peer.sends = true;
      peer.waits = false;
    }
    while (true) {
      if (!peer.listens) {
        peer.in.resize(rank_status_bytes(static_cast<int>(ranks_.size())));
        peer.receiving = transport.recv(to, channel_, peer.in.data(), peer.in.size());
        peer.listens = true;
      }
      if (!transport.test(peer.receiving)) return;
      peer.listens = false;
      peer.last = read_rank_status(peer.in, static_cast<int>(ranks_.size()));
    }
  } catch (const Error&) {
    peer.gone = true;
  }
}

}  // namespace starling::dist
