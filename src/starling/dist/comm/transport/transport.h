#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "starling/dist/comm/comm.h"

namespace starling {

// Moves bytes between pairs of ranks: all that a backend without collectives of its own has to bring. Used from one
// thread at a time, except where "any thread" is said. Transfers of one ordered pair and channel match in the order
// they are started, and both sides give the same number of bytes; different channels never meet. Nothing waits for a
// peer but wait(): both sides may send first, whatever the size. Destroying it ends what is outstanding (a receive for
// which nothing was sent) without touching its buffers again; what had been sent still arrives.
class Transport {
 public:
  using Transfer = std::uint64_t;  // a started one; its number is free again once test() has said that it ended

  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;  // gloo, mpi, …
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual bool survives_loss() const { return false; }  // a lost peer is an error, not the end of the process

  // The buffer belongs to the transfer until it has ended or abort() has returned: then none is touched any more. Zero
  // bytes are a transfer too. Throws Error naming the peer where that has left.
  virtual Transfer send(int to, std::uint32_t channel, const void* data, std::size_t bytes) = 0;
  virtual Transfer recv(int from, std::uint32_t channel, void* data, std::size_t bytes) = 0;

  // Whether it has ended; moves others on meanwhile. Throws Error naming the peer once that is lost. Of a peer that has
  // left in good order only its own transfers throw: others go on.
  virtual bool test(Transfer transfer) = 0;

  // Blocks until something may have moved, or until that time. May return early.
  virtual void wait(CommTime until) = 0;

  // Makes a wait() under way return soon; any thread. Where it does nothing, calls that come while another thread waits
  // are taken up within a millisecond.
  virtual void wake() {}

  // Tells the others as far as it can; every later call throws, there and here. Any thread.
  virtual void abort(std::string_view reason) = 0;
};

// Collectives made of transfers (comm/algorithms/), over any transport. Operations move on whenever any of them is
// polled or awaited. Collective: measures latency and bandwidth between the ranks, a few milliseconds, and chooses
// algorithms by them; the form with options is in transport_comm.h.
std::unique_ptr<Comm> make_transport_comm(std::shared_ptr<Transport> transport, CommGroup group);

}  // namespace starling
