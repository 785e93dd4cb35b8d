#pragma once

#include <condition_variable>
#include <list>

#include "starling/dist/launch/socket.h"
#include "starling/dist/launch/store/frame.h"
#include "starling/dist/launch/store/handshake.h"
#include "starling/dist/launch/store/store_server.h"

namespace starling::dist {

// Event loop of a StoreServer: all connections in one poll, each a small state machine that never blocks.
class StoreServer::Loop {
 public:
  Loop(UniqueFd listener, const StoreServerOptions& options);

  void run();
  void stop();
  std::optional<Note> note(const std::string& key) const;
  bool catch_up(std::chrono::milliseconds deadline);
  std::vector<int> missing() const;
  std::optional<FailureDetector::Finding> finding() const;

 private:
  struct Peer {
    enum class State { hello, proof, member };
    UniqueFd socket;
    State state = State::hello;
    SocketTime deadline;  // for the handshake
    std::string in{}, out{};
    bool leaving = false;  // close once `out` is sent
    bool gone = false;
    HelloBytes hello_bytes{};
    Hello hello{};
    Digest256 expected_proof{};
    Seal sent{}, received{};
    bool beats = false;  // the connection of a HeartbeatSender, which is told findings
    std::optional<std::string> waits_for{};
    SocketTime waits_until{};
  };

  void wake();
  std::uint64_t rounds_asked() const;
  void finish_round(std::uint64_t asked);
  void accept_all();
  void make_room();
  void read(Peer& peer);
  void write(Peer& peer);
  void advance(Peer& peer);  // as far as the received bytes allow
  void greet(Peer& peer);
  void admit(Peer& peer);
  bool take_frame(Peer& peer);
  void handle(Peer& peer, Frame frame);
  void keep(std::string key, std::string value);  // stores a note
  void take_beat(Peer& peer, const Frame& frame);
  void look_after_ranks();
  void say_bye();
  void set(Peer& peer, Frame frame);
  void give(Peer& peer);  // sends the awaited value, if present
  void reply(Peer& peer, Frame::Kind kind, std::string value);
  void refuse(Peer& peer, std::string why);
  void expire(SocketTime now);
  std::string who_is_missing() const;
  int timeout_ms(SocketTime now) const;

  const StoreServerOptions options_;
  const Membership membership_;
  UniqueFd listener_, notifier_;
  std::atomic<bool> stopping_{false};
  std::list<Peer> peers_;  // oldest first
  SocketTime accept_after_{};
  std::map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
  std::string last_refusal_;
  const std::string place_;  // of this process, for messages
  FailureDetector detector_;

  mutable std::mutex mutex_;                // guards the members read by other threads
  std::map<int, std::uint64_t> processes_;  // by rank: process that joined
  std::map<std::string, Note> notes_;
  std::optional<FailureDetector::Finding> finding_;
  std::uint64_t rounds_asked_ = 0, rounds_done_ = 0;  // rounds over all sockets that catch_up waits for
  std::condition_variable round_done_;
};

}  // namespace starling::dist
