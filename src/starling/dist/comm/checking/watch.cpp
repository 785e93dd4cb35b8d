#include "starling/dist/comm/checking/watch.h"

#include <algorithm>

#include "starling/dist/comm/coarse_clock.h"

namespace starling::dist {

Watch::~Watch() { comm_.tell(rank_status_of(comm_.journal(), RankStatus::State::left, comm_.size())); }

void Watch::calling() {
  const std::thread::id self = std::this_thread::get_id();
  const std::thread::id before = caller_.load(std::memory_order_relaxed);
  if (before == self) return;
  if (before != std::thread::id()) many_callers_.store(true);
  caller_.store(self);
}

bool Watch::wait(const Subject& subject, CommTime deadline, FunctionRef<bool(CommTime)> await,
                 FunctionRef<void(const std::string&)> hopeless) {
  const CommTime patience = about_now() + kPatience;
  if (await(std::min(deadline, patience))) return true;
  if (deadline <= patience) return false;
  tell_waiting(subject);
  while (true) {
    const CommTime next = CommClock::now() + kPeriod;
    if (await(std::min(deadline, next))) return true;
    const std::string why = look_around(subject);
    if (!why.empty()) {
      // Ranks also leave because the group broke; this throws the reason in that case.
      if (await(CommClock::now())) return true;
      hopeless(why);
    }
    if (deadline <= next) return false;
  }
}

bool Watch::look(const Subject& subject, CommTime since, FunctionRef<bool()> poll,
                 FunctionRef<void(const std::string&)> hopeless) {
  if (poll()) return true;
  if (CommClock::now() - since < kPatience) return false;
  const std::string why = look_around(subject);
  if (why.empty()) return false;
  if (poll()) return true;
  hopeless(why);
  return false;
}

void Watch::tell_waiting(const Subject& subject) {
  if (!subject.for_good || many_callers_.load() || caller_.load() != std::this_thread::get_id()) return;
  comm_.tell(own(subject));
}

RankStatus Watch::own(const Subject& subject) const {
  RankStatus status = rank_status_of(comm_.journal(), RankStatus::State::waiting, comm_.size());
  status.call = subject.call;
  status.peer = subject.peer;
  return status;
}

// Description of the deadlock if this rank is part of one; else empty. If this thread can give up, or another thread of
// its rank may help, only waits for ranks that have left count as hopeless.
std::string Watch::look_around(const Subject& subject) {
  std::vector<RankStatus> statuses;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    statuses.push_back(rank == comm_.rank() ? own(subject) : comm_.heard(rank));
  }
  const bool surely = subject.for_good && !many_callers_.load() && caller_.load() == std::this_thread::get_id();
  if (!surely) {
    for (int rank = 0; rank < comm_.size(); ++rank) {
      RankStatus& other = statuses[static_cast<std::size_t>(rank)];
      if (rank != comm_.rank() && other.state != RankStatus::State::left) other = {};
    }
  }
  const std::vector<int> ranks = hopeless(statuses);
  if (std::find(ranks.begin(), ranks.end(), comm_.rank()) == ranks.end()) return {};
  return describe_hopeless(statuses);
}

}  // namespace starling::dist
