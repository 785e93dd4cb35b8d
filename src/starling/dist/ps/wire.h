#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "starling/dist/ps/message.h"

namespace starling::dist::ps {

using std::chrono::milliseconds;

// True if this build has ZeroMQ (libzmq3-dev); otherwise make_wire() throws.
bool has_wire();

struct WireOptions {
  // Secret of the job. Needed for addresses beyond this host, where everything is encrypted with CURVE keys derived
  // from it: only who knows it can make a connection, and nothing a peer sends is looked at before that.
  std::string secret{};
};

// End of a line between a server and its workers. Used by one thread.
class Socket {
 public:
  virtual ~Socket() = default;

  // Hands the message over; never waits. Parts are kept alive until they have left. `peer`: whom a listener answers,
  // ignored by a line. A message to a peer that is gone is dropped.
  virtual void send(const Message& message, const std::string& peer = "") = 0;
  // Next message that has arrived, if any. Whatever is not a message of ours is dropped and counted.
  virtual std::optional<Message> receive(std::string* peer = nullptr) = 0;
  // Address it listens on or is connected to; the port that was found free where "*" was asked for.
  virtual const std::string& address() const = 0;
  virtual std::size_t dropped() const = 0;
  // Line: true if the connection that once stood has been lost since the last call. Always false inside a process.
  virtual bool lost() { return false; }
};

// Maker of the sockets between workers and parameter servers. Addresses say what carries the messages:
//   inproc://name        threads of this process; both ends must come from the same Wire
//   ipc:///path          processes of this host; the folder decides who may connect
//   tcp://host:port      machines. Listening: an address of this host, "*" for a free port
// Thread-safe.
class Wire {
 public:
  virtual ~Wire() = default;

  // `most`: bytes of the largest part that may arrive; a peer that announces more is cut off before memory is taken.
  virtual std::unique_ptr<Socket> listen(const std::string& address, std::size_t most) = 0;
  // Returns at once: the other end may appear later.
  virtual std::unique_ptr<Socket> connect(const std::string& address, std::size_t most) = 0;
  // Blocks until one of the sockets has something to receive; false: nothing came in time.
  virtual bool wait(std::span<Socket* const> sockets, milliseconds time) = 0;
};

std::shared_ptr<Wire> make_wire(const WireOptions& options = {});

// Proof that its sender knows the secret, part of every hello; empty without a secret.
std::string wire_proof(const std::string& secret, std::uint32_t worker);

}  // namespace starling::dist::ps
