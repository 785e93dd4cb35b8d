#pragma once

#include <list>

#include "starling/dist/launch/frame.h"
#include "starling/dist/launch/handshake.h"
#include "starling/dist/launch/socket.h"
#include "starling/dist/launch/store_server.h"

namespace starling {

// The thread of a StoreServer: all connections in one poll, each a small state machine that never blocks.
class StoreServer::Loop {
 public:
  Loop(UniqueFd listener, const StoreServerOptions& options);

  void run();
  void stop();
  std::optional<Note> note(const std::string& key) const;
  std::vector<int> missing() const;

 private:
  struct Peer {
    enum class State { hello, proof, member };
    UniqueFd socket;
    State state = State::hello;
    SocketTime deadline;  // of the handshake
    std::string in{}, out{};
    bool leaving = false;  // closed once `out` is gone
    bool gone = false;
    HelloBytes hello_bytes{};
    Hello hello{};
    Digest256 expected_proof{};
    Seal sent{}, received{};
    std::optional<std::string> waits_for{};
    SocketTime waits_until{};
  };

  void accept_all();
  void make_room();
  void read(Peer& peer);
  void write(Peer& peer);
  void advance(Peer& peer);  // as far as what has arrived allows
  void greet(Peer& peer);
  void admit(Peer& peer);
  bool take_frame(Peer& peer);
  void handle(Peer& peer, Frame frame);
  void keep(std::string key, std::string value);  // a note
  void set(Peer& peer, Frame frame);
  void give(Peer& peer);  // the value it waits for, if it is there
  void reply(Peer& peer, Frame::Kind kind, std::string value);
  void refuse(Peer& peer, std::string why);
  void expire(SocketTime now);
  std::string who_is_missing() const;
  int timeout_ms(SocketTime now) const;

  const StoreServerOptions options_;
  const Membership membership_;
  UniqueFd listener_, bell_;
  std::atomic<bool> stopping_{false};
  std::list<Peer> peers_;  // oldest first
  SocketTime accept_after_{};
  std::map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
  std::string last_refusal_;

  mutable std::mutex mutex_;                // of what other threads ask for
  std::map<int, std::uint64_t> processes_;  // by rank: who joined
  std::map<std::string, Note> notes_;
};

}  // namespace starling
