#pragma once

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/tcp/unbound_buffer.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "starling/dist/comm/transport/gloo/notifier.h"

// Extensions of Gloo's TCP connections: Gloo's thread notifies about progress, so that no thread must block in one
// transfer to see another; and an error on that thread closes the connection instead of ending the process.
namespace starling::dist::wire {

namespace tcp = ::gloo::transport::tcp;

// Padding behind a Gloo base class whose size may be underestimated here (missing/gloo/common/memory.h).
struct Room {
  char room[256];
};

class Pair final : public tcp::Pair {
 public:
  Pair(tcp::Context* context, tcp::Device* device, int peer, std::chrono::milliseconds timeout,
       std::shared_ptr<Notifier> notifier);
  ~Pair() override;

  // True if a stranger connected to the listener that Gloo makes for a moment: the pair is of no use.
  bool taken() const { return taken_; }
  // Takes over a connected socket, authenticated before.
  void adopt(int fd);

  bool closed() const { return closed_.load(std::memory_order_acquire); }

  // Closes the connection some seconds after the peer's host stops answering, as long as nothing is in flight to it. A
  // stopped process is not silent: its kernel answers.
  void watch_silence();

  void handleEvents(int events) override;

 protected:
  bool write(tcp::Op& op) override;
  void changeState(state next) noexcept override;

 private:
  void stop_listening();

  Room behind_base_;
  std::shared_ptr<Notifier> notifier_;
  bool taken_ = false;
  std::atomic<bool> adopted_{false};
  std::atomic<bool> closed_{false};
  std::mutex handling_;  // held by Gloo's thread while in handleEvents
};

// Connections of one rank to all others.
class Context final : public tcp::Context {
 public:
  Context(std::shared_ptr<tcp::Device> device, int rank, int size, std::shared_ptr<Notifier> notifier);
  ~Context() override;

  std::unique_ptr<::gloo::transport::Pair>& createPair(int rank) override;
  Pair& pair(int rank) { return static_cast<Pair&>(*getPair(rank)); }

  // Closing of all connections: Gloo's thread touches none of their buffers afterwards. close() drops data in flight,
  // release() lets the kernel deliver what it has.
  void close();
  void release() { pairs_.clear(); }

 private:
  std::shared_ptr<Notifier> notifier_;
};

// One transfer.
class Buffer final : public tcp::UnboundBuffer {
 public:
  using tcp::UnboundBuffer::UnboundBuffer;

  // True if the transfer has ended; throws Gloo's error if it can no longer end.
  bool sent();
  bool received();

 private:
  Room behind_base_;
};

// Event loop of the connections, on a thread of its own.
std::shared_ptr<tcp::Device> make_device();

}  // namespace starling::dist::wire
