#pragma once

#include "starling/dist/comm/call.h"

namespace starling {

class Comm;

// A started operation: a small value that refers to its communicator and must not outlive it. The buffers of the
// operation belong to it until done() is true, or wait() has returned or thrown. Any thread may wait; several may.
class [[nodiscard]] Work {
 public:
  Work() = default;  // no operation: always done

  // True if the operation completed. Never blocks, but may do part of the work. Throws Error if the operation can no
  // longer complete.
  bool done() const;

  // Blocks this thread only, helping with the operation where the backend can. Throws Error when the group failed or
  // the deadline passed; the message names rank, op, sequence number, name, the ranks that had not arrived, what was
  // finished last, and the flight recorder. A passed deadline breaks the group: every rank gets the error.
  void wait() const;
  void wait_until(CommTime deadline) const;

  // Like wait(), but gives up after `time` with no side effect; true if the operation has ended.
  bool wait_for(std::chrono::milliseconds time) const;

  const Ticket& ticket() const { return ticket_; }

 private:
  friend class Comm;
  Work(Comm& comm, const Ticket& ticket, CommTime deadline, std::uint64_t record)
      : comm_(&comm), ticket_(ticket), deadline_(deadline), record_(record) {}

  Comm* comm_ = nullptr;
  Ticket ticket_;
  CommTime deadline_ = {};
  std::uint64_t record_ = 0;  // number of its record in the flight recorder
};

}  // namespace starling
