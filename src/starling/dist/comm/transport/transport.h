#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "starling/dist/comm/comm.h"

namespace starling::dist {

// Point-to-point byte transport: all that a backend without collectives of its own must provide. One thread at a time,
// except where "any thread" is stated. Transfers of one ordered pair and channel match in the order they are started,
// with equal byte counts on both sides; different channels never match. Only wait() blocks: both sides may send first,
// whatever the size. Destruction drops outstanding transfers (a receive for which nothing was sent) without touching
// their buffers again; data already sent still arrives.
class Transport {
 public:
  using Transfer = std::uint64_t;  // id of a started transfer; reused once test() has returned true

  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;  // gloo, mpi, …
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual bool survives_loss() const { return false; }  // a lost peer is an error, not the end of the process

  // Buffers belong to the transfer until it has ended or abort() has returned; none is touched afterwards. Zero bytes
  // are a transfer too. Throws Error naming the peer if it has left.
  virtual Transfer send(int to, std::uint32_t channel, const void* data, std::size_t bytes) = 0;
  virtual Transfer recv(int from, std::uint32_t channel, void* data, std::size_t bytes) = 0;

  // True if the transfer has ended; advances others meanwhile. Throws Error naming the peer once that is lost. If a
  // peer left in good order, only transfers with that peer throw.
  virtual bool test(Transfer transfer) = 0;

  // Blocks until some transfer may have progressed, or until the given time. May return early.
  virtual void wait(CommTime until) = 0;

  // Makes a running wait() return soon; any thread. If not implemented, calls made while another thread waits are
  // picked up within a millisecond.
  virtual void wake() {}

  // Notifies the other ranks as far as possible; every later call throws, there and here. Any thread.
  virtual void abort(std::string_view reason) = 0;
};

// Communicator over any transport, with collectives built from transfers (comm/algorithms/). Operations progress
// whenever any of them is polled or awaited. Collective: measures latency and bandwidth between the ranks, a few
// milliseconds, and chooses algorithms by them; the form with options is in transport_comm.h.
std::unique_ptr<Comm> make_transport_comm(std::shared_ptr<Transport> transport, CommGroup group);

}  // namespace starling::dist
