#pragma once

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/tcp/unbound_buffer.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "starling/dist/comm/transport/gloo/bell.h"

// Gloo's TCP connections, with what they lack: its thread tells when something has moved, so that nobody has to block
// in one transfer to see another; and what goes wrong on that thread closes the connection, not the process.
namespace starling::wire {

namespace tcp = ::gloo::transport::tcp;

// Behind a class of Gloo's whose size may be taken too small here (missing/gloo/common/memory.h).
struct Room {
  char room[256];
};

class Pair final : public tcp::Pair {
 public:
  Pair(tcp::Context* context, tcp::Device* device, int peer, std::chrono::milliseconds timeout,
       std::shared_ptr<Bell> bell);
  ~Pair() override;

  bool closed() const { return closed_.load(std::memory_order_acquire); }

  // A host that no longer answers closes the connection after some seconds, as long as nothing is on its way there. A
  // stopped process is not silent: its kernel answers.
  void watch_silence();

  void handleEvents(int events) override;

 protected:
  bool write(tcp::Op& op) override;
  void changeState(state next) noexcept override;

 private:
  Room behind_base_;
  std::shared_ptr<Bell> bell_;
  std::atomic<bool> closed_{false};
  std::mutex handling_;  // held by Gloo's thread while it is in here
};

// The connections of one rank to all others.
class Context final : public tcp::Context {
 public:
  Context(std::shared_ptr<tcp::Device> device, int rank, int size, std::shared_ptr<Bell> bell);
  ~Context() override;

  std::unique_ptr<::gloo::transport::Pair>& createPair(int rank) override;
  Pair& pair(int rank) { return static_cast<Pair&>(*getPair(rank)); }

  // Both end all connections: Gloo's thread touches no buffer of theirs afterwards. close() drops what is on its way,
  // release() lets the kernel deliver what it has.
  void close();
  void release() { pairs_.clear(); }

 private:
  std::shared_ptr<Bell> bell_;
};

// One transfer.
class Buffer final : public tcp::UnboundBuffer {
 public:
  using tcp::UnboundBuffer::UnboundBuffer;

  // Whether the transfer has ended; throws what Gloo says when it cannot any more.
  bool sent();
  bool received();

 private:
  Room behind_base_;
};

// Listens at one address, on a thread of its own.
std::shared_ptr<tcp::Device> make_device(const std::string& address);

}  // namespace starling::wire
