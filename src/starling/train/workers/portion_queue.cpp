#include "starling/train/workers/portion_queue.h"

#include <algorithm>
#include <utility>

#include "starling/base/error.h"

namespace starling::train {

PortionQueue::PortionQueue(const Options& options)
    : options_(options), workers_(static_cast<std::size_t>(options.workers)) {
  check(options.workers >= 1, "[portions] expected at least one worker, got {}", options.workers);
}

void PortionQueue::open(const Opening& opening) {
  {
    const std::scoped_lock lock(mutex_);
    opening_ = opening;
    next_ = done_ = 0;
    outstanding_.clear();
    returned_.clear();
    steps_.clear();
    open_.clear();
    closed_ = 0;
    pause_steps_.clear();
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      workers_[w].next = static_cast<std::int64_t>(w);
      workers_[w].pauses = 0;
      workers_[w].told_at = -1;
    }
    opened_ = true;
    pausing_ = false;
  }
  changed_.notify_all();
}

void PortionQueue::allow(std::int64_t portions) {
  const std::scoped_lock lock(mutex_);
  allowed_ = portions;
}

std::optional<PortionStep> PortionQueue::take_step(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, wait, [&] { return !steps_.empty(); })) return std::nullopt;
  const PortionStep step = steps_.front();
  steps_.pop_front();
  return step;
}

// In turn: steps that the foremost worker has begun.
std::int64_t PortionQueue::foremost() const {
  std::int64_t most = 0;
  for (const Worker& one : workers_) most = std::max(most, step_of(one));
  return most;
}

// In turn: there is a portion of the worker's own. While pausing: only up to the step that the foremost has begun, so
// that all workers end with the same one.
bool PortionQueue::has_own(const Worker& own) const {
  return own.next < end() && !(pausing_ && step_of(own) >= foremost());
}

std::optional<std::int64_t> PortionQueue::choose_in_turn(int worker) {
  Worker& own = workers_[static_cast<std::size_t>(worker)];
  if (!has_own(own)) return std::nullopt;
  own.next += options_.workers;
  return own.next - options_.workers;
}

// In turn: parts of lost workers in steps that all others have begun are done, by nobody.
void PortionQueue::leave_out_lost() {
  if (!options_.in_turn) return;
  std::int64_t begun = end() / options_.workers;  // steps
  for (const Worker& one : workers_) begun = one.gone ? begun : std::min(begun, step_of(one));
  for (Worker& one : workers_) {
    for (; one.gone && step_of(one) < begun; one.next += options_.workers) count(one.next);
  }
}

std::optional<std::int64_t> PortionQueue::choose(int worker) {
  if (!returned_.empty()) {
    const std::int64_t number = returned_.front();
    returned_.pop_front();
    return number;
  }
  if (options_.in_turn) return choose_in_turn(worker);
  if (next_ >= end() || (pausing_ && next_ % pieces() == 0)) return std::nullopt;
  const auto first = std::find_if(workers_.begin(), workers_.end(), [](const Worker& one) { return !one.gone; });
  if (next_ < options_.warm && worker != first - workers_.begin()) return std::nullopt;
  return next_++;
}

// Of the portions that other workers have, the first of those that the fewest have.
std::optional<std::int64_t> PortionQueue::choose_duplicate(int worker) const {
  const auto fewest = [&](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
  std::map<std::int64_t, std::set<int>> others;
  for (const auto& one : outstanding_) {
    if (!one.second.contains(worker)) others.insert(one);
  }
  const auto found = std::min_element(others.begin(), others.end(), fewest);
  return found == others.end() ? std::nullopt : std::optional(found->first);
}

bool PortionQueue::join(int worker) {
  const std::scoped_lock lock(mutex_);
  Worker& own = workers_.at(static_cast<std::size_t>(worker));
  own.joined = !ended_;
  own.unsettled = 0;
  if (ended_) changed_.notify_all();
  return !ended_;
}

// In turn: another worker was told to pause before the step that this one makes next. It cannot be a later one, as
// workers are told so only where none has a portion of that step yet.
bool PortionQueue::owes_pause(Worker& own) const {
  bool owes = false;
  for (; own.pauses < pause_steps_.size() && pause_steps_[own.pauses] <= step_of(own); ++own.pauses) owes = true;
  return owes;
}

PortionAnswer PortionQueue::portion(int worker, std::int64_t number, bool again) {
  Worker& own = workers_[static_cast<std::size_t>(worker)];
  ++handed_;
  outstanding_[number].insert(worker);
  own.idle = false;  // the worker may keep something back again
  const double lr = opening_.rate ? opening_.rate(number / pieces()) : 0;
  // In turn the step is the clock: the foremost worker's would leave out clocks that the others wait for.
  const std::int64_t clock = options_.in_turn ? number / options_.workers : clock_;
  return {.kind = PortionAnswer::Kind::portion,
          .portion = number,
          .lr = lr,
          .clock = clock,
          .alone = std::exchange(own.was_lost, false) || again ? 1 : 0,
          .pauses = static_cast<std::int64_t>(own.pauses)};
}

PortionAnswer PortionQueue::tell_pause(Worker& own) const {
  ++own.unsettled;
  own.told_at = step_of(own);
  return {.kind = PortionAnswer::Kind::pause};
}

// There is no portion for the worker. It is told so once, in turn also if it has paused here because others did.
PortionAnswer PortionQueue::pause_of(Worker& own) {
  if (std::exchange(own.idle, true)) return {};
  if (!options_.in_turn) return tell_pause(own);
  const std::int64_t step = step_of(own);
  if (own.told_at == step) {
    changed_.notify_all();
    return {};
  }
  pause_steps_.push_back(step);
  own.pauses = pause_steps_.size();
  return tell_pause(own);
}

PortionAnswer PortionQueue::next(int worker) {
  const std::scoped_lock lock(mutex_);
  Worker& own = workers_.at(static_cast<std::size_t>(worker));
  if (ended_) return {.kind = PortionAnswer::Kind::end};  // also to a loader that reads ahead of a worker that has left
  if (own.retiring) return {};
  own.gone = false;  // one that was taken for lost is back
  if (!opened_) return {};
  if (options_.in_turn && owes_pause(own)) {
    own.idle = !has_own(own);
    return tell_pause(own);
  }
  const bool again = !returned_.empty();
  auto number = choose(worker);
  if (!number && options_.duplicate && !pausing_ && (number = choose_duplicate(worker))) ++duplicated_;
  return number ? portion(worker, *number, again) : pause_of(own);
}

// Counts a portion as done; the sums that it belongs to.
PortionStep& PortionQueue::count(std::int64_t portion) {
  const std::int64_t step = (options_.in_turn ? portion : done_) / pieces();
  ++done_;
  Open& open = open_[step];
  ++open.portions;
  return open.sum;
}

void PortionQueue::close_steps() {
  for (auto first = open_.find(closed_); first != open_.end() && first->second.portions == pieces();
       first = open_.find(closed_)) {
    steps_.push_back(first->second.sum);
    open_.erase(first);
    ++closed_;
  }
}

void PortionQueue::done(int worker, const PortionNote& note) {
  {
    const std::scoped_lock lock(mutex_);
    workers_.at(static_cast<std::size_t>(worker)).stats = note.stats;
    const auto found = outstanding_.find(note.portion);
    if (found == outstanding_.end() || !found->second.contains(worker)) {
      ++repeated_;
      return;
    }
    outstanding_.erase(found);
    PortionStep& sum = count(note.portion);
    sum.loss += note.loss;
    sum.weight += note.weight;
    sum.rows += note.rows;
    clock_ = std::max(clock_, note.clock);
    if (note.not_finite != 0) {
      ++sum.skipped;
      sum.bad_worker = worker;
      sum.not_finite = note.not_finite;
      sum.parameter = note.parameter;
    }
    leave_out_lost();
    close_steps();
  }
  changed_.notify_all();
}

// One that has not joined has nothing to settle; in turn it is waited for, as its part of every step is. In turn one
// that was told so before others have begun another step still owes its part of that.
bool PortionQueue::settled(const Worker& one) const {
  if (one.gone || (!one.joined && !options_.in_turn)) return true;
  return one.idle && one.unsettled == 0 && (!options_.in_turn || step_of(one) >= foremost());
}

bool PortionQueue::all_settled() const {
  return outstanding_.empty() && returned_.empty() &&
         std::all_of(workers_.begin(), workers_.end(), [this](const Worker& one) { return settled(one); });
}

bool PortionQueue::pause(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  pausing_ = true;
  return changed_.wait_for(lock, wait, [&] { return all_settled(); });
}

void PortionQueue::resume() {
  const std::scoped_lock lock(mutex_);
  pausing_ = false;
}

void PortionQueue::finish() {
  const std::scoped_lock lock(mutex_);
  ended_ = true;
}

bool PortionQueue::left(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, wait, [&] {
    return std::all_of(workers_.begin(), workers_.end(), [](const Worker& one) { return one.gone || !one.joined; });
  });
}

void PortionQueue::settled(int worker) {
  {
    const std::scoped_lock lock(mutex_);
    Worker& own = workers_.at(static_cast<std::size_t>(worker));
    own.unsettled = std::max<std::int64_t>(0, own.unsettled - 1);
  }
  changed_.notify_all();
}

void PortionQueue::leave(int worker, std::string counters) {
  {
    const std::scoped_lock lock(mutex_);
    Worker& own = workers_.at(static_cast<std::size_t>(worker));
    own.gone = true;
    own.counters = std::move(counters);
  }
  changed_.notify_all();
}

void PortionQueue::lose(int worker, const std::string& why) {
  {
    const std::scoped_lock lock(mutex_);
    Worker& own = workers_.at(static_cast<std::size_t>(worker));
    if (own.gone) return;
    own.gone = own.was_lost = own.retiring = true;
    own.idle = false;
    for (auto one = outstanding_.begin(); one != outstanding_.end();) {
      if (one->second.erase(worker) == 0 || !one->second.empty()) {
        ++one;
        continue;
      }
      if (!options_.in_turn) returned_.push_back(one->first);
      if (options_.in_turn) count(one->first);
      one = outstanding_.erase(one);
    }
    leave_out_lost();
    close_steps();
    lost_.push_back({worker, why});
  }
  changed_.notify_all();
}

void PortionQueue::retired(int worker) {
  const std::scoped_lock lock(mutex_);
  workers_.at(static_cast<std::size_t>(worker)).retiring = false;
}

std::vector<PortionQueue::Lost> PortionQueue::take_lost() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(lost_, {});
}

int PortionQueue::alive() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [](const Worker& one) { return !one.gone; }));
}

int PortionQueue::first() const {
  const std::scoped_lock lock(mutex_);
  const auto found = std::find_if(workers_.begin(), workers_.end(), [](const Worker& one) { return !one.gone; });
  return found == workers_.end() ? -1 : static_cast<int>(found - workers_.begin());
}

std::int64_t PortionQueue::done_count() const {
  const std::scoped_lock lock(mutex_);
  return done_;
}

std::int64_t PortionQueue::moves() const {
  const std::scoped_lock lock(mutex_);
  return handed_ + done_;
}

std::vector<int> PortionQueue::busy() const {
  const std::scoped_lock lock(mutex_);
  std::set<int> who;
  for (const auto& [portion, workers] : outstanding_) who.insert(workers.begin(), workers.end());
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (pausing_ && !settled(workers_[w])) who.insert(static_cast<int>(w));
  }
  return {who.begin(), who.end()};
}

std::vector<RankStats> PortionQueue::stats() const {
  const std::scoped_lock lock(mutex_);
  std::vector<RankStats> all;
  for (const Worker& one : workers_) all.push_back(one.stats);
  return all;
}

std::vector<std::string> PortionQueue::counters() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> all;
  for (const Worker& one : workers_) all.push_back(one.counters);
  return all;
}

bool PortionQueue::wanted(int worker, std::int64_t portion) const {
  const std::scoped_lock lock(mutex_);
  const auto found = outstanding_.find(portion);
  return found != outstanding_.end() && found->second.contains(worker);
}

std::int64_t PortionQueue::duplicated() const {
  const std::scoped_lock lock(mutex_);
  return duplicated_;
}

std::int64_t PortionQueue::repeated() const {
  const std::scoped_lock lock(mutex_);
  return repeated_;
}

}  // namespace starling::train
