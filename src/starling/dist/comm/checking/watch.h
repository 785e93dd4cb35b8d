#pragma once

#include <atomic>
#include <thread>

#include "starling/base/function_ref.h"
#include "starling/dist/comm/comm.h"
#include "starling/dist/comm/rank_status.h"

namespace starling::dist {

// Deadlock detector of one rank of a group: while a wait lasts, the rank publishes what it waits for and reads what the
// others wait for. Does nothing before a wait has lasted kPatience.
//
// A published status stays until the next one, even when that wait is long over; hopeless() tells why this is harmless.
// A rank publishes a wait only if a single thread has made all its calls: another thread might still make the call that
// the others wait for.
class Watch {
 public:
  static constexpr std::chrono::milliseconds kPatience{150};
  static constexpr std::chrono::milliseconds kPeriod{50};

  // Call that a thread waits for. for_good: the thread cannot give up before it has ended.
  struct Subject {
    const Fingerprint& call;
    int peer = -1;  // partner of a message
    bool for_good = true;
  };

  explicit Watch(Comm& comm) : comm_(comm) {}  // used to publish and read statuses
  ~Watch();                                    // publishes that this rank has left
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Registers the calling thread; invoke before each call.
  void calling();

  // Calls await(until), which returns true once the operation has ended, until then or until the deadline, and checks
  // statuses meanwhile. On a deadlock, or if a needed rank has left, calls hopeless(who waits for what), which throws.
  bool wait(const Subject& subject, CommTime deadline, FunctionRef<bool(CommTime)> await,
            FunctionRef<void(const std::string&)> hopeless);

  // Calls poll(); if false and the call was made (at `since`) more than kPatience ago, checks statuses once, as wait()
  // does.
  bool look(const Subject& subject, CommTime since, FunctionRef<bool()> poll,
            FunctionRef<void(const std::string&)> hopeless);

  // Publishes a wait that is not run through wait().
  void tell_waiting(const Subject& subject);

 private:
  std::string look_around(const Subject& subject);
  RankStatus own(const Subject& subject) const;

  Comm& comm_;
  std::atomic<std::thread::id> caller_{};
  std::atomic<bool> many_callers_{false};
};

}  // namespace starling::dist
