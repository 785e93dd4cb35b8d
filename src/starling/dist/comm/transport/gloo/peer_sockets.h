#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "starling/base/file/file.h"
#include "starling/dist/comm/comm.h"
#include "starling/dist/launch/socket.h"

namespace starling::dist::wire {

// Secret of one rank of a group, in the store: a rank that connects to it must know the secret.
using Token = std::array<char, 32>;

// Kinds of connection between two ranks.
enum : int { kData = 0, kControl = 1, kKinds = 2 };

// Connected and authenticated sockets of one rank to all others, made before a library reads their first byte. A rank
// connects to those of smaller numbers and accepts those of larger ones. In messages of fixed size the accepting side
// sends a nonce, the connecting side says who it is and proves that it knows the accepting rank's token, which then
// proves the same. Strangers (other programs, port scanners) are dropped: the join goes on without them.
class PeerSockets {
 public:
  // Listens on a free port of this numeric address.
  PeerSockets(const CommGroup& group, const std::string& address, CommTime until, std::function<bool()> stop);

  int port() const;
  const Token& token() const { return token_; }

  // Connects both kinds to a rank of smaller number. Throws Error saying why it cannot.
  void connect(int peer, const HostPort& where, const Token& token);
  // Accepts both kinds from every rank of larger number. Throws Error naming those that have not come.
  void accept_all();
  UniqueFd take(int peer, int kind) { return std::move(sockets_[static_cast<std::size_t>(peer)][kind]); }

  // Connections dropped because they were not of this job, and where the last one came from.
  int strangers() const { return strangers_; }
  const std::string& last_stranger() const { return last_stranger_; }

 private:
  struct Guest;

  Result<UniqueFd> connect_once(int peer, int kind, const HostPort& where, const Token& token);
  void check_stop() const;
  bool await_word(const UniqueFd& socket) const;
  void admit_guests(std::vector<Guest>& guests);
  bool read_claim(Guest& guest);
  bool take_in(Guest& guest);
  void drop(Guest& guest);
  std::vector<int> missing() const;

  const CommGroup& group_;
  const CommTime until_;
  const std::function<bool()> stop_;
  UniqueFd listener_;
  Token token_{};
  std::vector<std::array<UniqueFd, kKinds>> sockets_;  // by peer
  int strangers_ = 0;
  std::string last_stranger_;
};

}  // namespace starling::dist::wire
