#include "starling/train/workers/portion_queue.h"

#include <algorithm>

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
    for (std::size_t w = 0; w < workers_.size(); ++w) workers_[w].next = static_cast<std::int64_t>(w);
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

// The next portion of the worker's own. While pausing: only up to the step that the foremost has begun, so that all
// workers end with the same one.
std::optional<std::int64_t> PortionQueue::choose_in_turn(int worker) {
  std::int64_t foremost = 0;
  for (const Worker& one : workers_) foremost = std::max(foremost, one.next / options_.workers);
  std::int64_t& next = workers_[static_cast<std::size_t>(worker)].next;
  if (next >= end() || (pausing_ && next / options_.workers >= foremost)) return std::nullopt;
  next += options_.workers;
  return next - options_.workers;
}

// In turn: parts of lost workers in steps that all others have begun are done, by nobody.
void PortionQueue::leave_out_lost() {
  if (!options_.in_turn) return;
  std::int64_t begun = end() / options_.workers;  // steps
  for (const Worker& one : workers_) begun = one.gone ? begun : std::min(begun, one.next / options_.workers);
  for (Worker& one : workers_) {
    for (; one.gone && one.next / options_.workers < begun; one.next += options_.workers) count(one.next);
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
  workers_.at(static_cast<std::size_t>(worker)).joined = !ended_;
  if (ended_) changed_.notify_all();
  return !ended_;
}

PortionAnswer PortionQueue::next(int worker) {
  const std::scoped_lock lock(mutex_);
  Worker& own = workers_.at(static_cast<std::size_t>(worker));
  if (ended_) return {.kind = PortionAnswer::Kind::end};  // also to a loader that reads ahead of a worker that has left
  if (own.retiring) return {};
  own.gone = false;  // one that was taken for lost is back
  if (!opened_) return {};
  const bool again = !returned_.empty();
  auto number = choose(worker);
  if (!number && options_.duplicate && !pausing_ && (number = choose_duplicate(worker))) ++duplicated_;
  if (number) {
    ++handed_;
    outstanding_[*number].insert(worker);
    own.paused = own.settled = std::min(own.paused, pauses_ - 1);  // the worker may keep something back again
    const double lr = opening_.rate ? opening_.rate(*number / pieces()) : 0;
    // In turn the step is the clock: the foremost worker's would leave out clocks that the others wait for.
    const std::int64_t clock = options_.in_turn ? *number / options_.workers : clock_;
    return {.kind = PortionAnswer::Kind::portion,
            .portion = *number,
            .lr = lr,
            .clock = clock,
            .alone = std::exchange(own.was_lost, false) || again ? 1 : 0};
  }
  if (own.paused == pauses_) return {};
  own.paused = pauses_;
  return {.kind = PortionAnswer::Kind::pause};
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
    }
    leave_out_lost();
    close_steps();
  }
  changed_.notify_all();
}

// One that has not joined has nothing to settle. In turn it is waited for, as its part of every step is.
bool PortionQueue::has_settled(const Worker& one) const {
  return one.gone || one.settled == pauses_ || (!one.joined && !options_.in_turn);
}

bool PortionQueue::all_settled() const {
  return outstanding_.empty() && returned_.empty() &&
         std::all_of(workers_.begin(), workers_.end(), [&](const Worker& one) { return has_settled(one); });
}

bool PortionQueue::pause(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  if (!pausing_) ++pauses_;
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
    own.settled = own.paused;
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
    if (pausing_ && !has_settled(workers_[w])) who.insert(static_cast<int>(w));
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
