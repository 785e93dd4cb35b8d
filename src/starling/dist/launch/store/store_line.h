#pragma once

#include <string>

#include "starling/dist/launch/socket.h"
#include "starling/dist/launch/store/frame.h"

namespace starling::dist {

// Authenticated connection of a rank to the rendezvous, after the handshake.
struct StoreLine {
  explicit StoreLine(UniqueFd connected) : socket(std::move(connected)) {}

  UniqueFd socket;
  Seal sent{}, received{};
  std::string server_place{};  // process that serves the rendezvous: "pid 4711 on alpha"; empty: not told

  Result<void> send(const Frame& frame, SocketTime deadline) { return send_all(socket, sent.close(frame), deadline); }

  Result<Frame> answer(SocketTime deadline) {
    std::string bytes(4, '\0');
    if (auto got = recv_exactly(socket, bytes, deadline); !got) return got.failure();
    const auto size = Seal::size_of(bytes);
    if (!size) return size.failure();
    bytes.resize(**size);
    if (auto got = recv_exactly(socket, std::span(bytes).subspan(4), deadline); !got) return got.failure();
    return received.open(bytes);
  }
};

}  // namespace starling::dist
