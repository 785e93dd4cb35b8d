#pragma once

#include <atomic>
#include <thread>

#include "starling/base/function_ref.h"
#include "starling/dist/comm/comm.h"
#include "starling/dist/comm/standing.h"

namespace starling {

// Notices waits that cannot end, on behalf of one rank of a group: while a wait lasts, the rank tells the others what
// it waits for and looks at what they wait for. Does nothing before a wait has lasted kPatience.
//
// What a rank has told stands until it tells something else, also when that wait is long over: standing.h says why no
// harm comes of it. A rank tells that it waits only while a single thread has made all its calls: another one might
// still make the call that the others wait for.
class Watch {
 public:
  static constexpr std::chrono::milliseconds kPatience{150};
  static constexpr std::chrono::milliseconds kPeriod{50};

  // What a thread waits for. for_good: it has no way back before that has ended.
  struct Subject {
    const Fingerprint& call;
    int peer = -1;  // partner of a message
    bool for_good = true;
  };

  explicit Watch(Comm& comm) : comm_(comm) {}  // tells and looks through it
  ~Watch();                                    // tells that this rank has left
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // To be said by the calling thread before each call.
  void calling();

  // Calls await(until), which says whether what is waited for has ended, until it has or the deadline has passed, and
  // looks around meanwhile. When ranks wait for each other, or for one that has left, hopeless(who waits for what) is
  // called, which throws.
  bool wait(const Subject& subject, CommTime deadline, FunctionRef<bool(CommTime)> await,
            FunctionRef<void(const std::string&)> hopeless);

  // poll(), and, when that says no, one look for ranks that have left, where the call was made long before: at `since`.
  bool look(const Subject& subject, CommTime since, FunctionRef<bool()> poll,
            FunctionRef<void(const std::string&)> hopeless);

  // Before a wait that looks after itself: the others shall know of it.
  void tell_waiting(const Subject& subject);

 private:
  std::string look_around(const Subject& subject);
  Standing own(const Subject& subject) const;

  Comm& comm_;
  std::atomic<std::thread::id> caller_{};
  std::atomic<bool> many_callers_{false};
};

}  // namespace starling
