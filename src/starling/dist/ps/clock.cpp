#include "starling/dist/ps/clock.h"

#include <fmt/format.h>

#include <algorithm>

#include "starling/base/error.h"

namespace starling::dist::ps {

WorkerClocks::WorkerClocks(const ClockOptions& options)
    : options_(options), done_(static_cast<std::size_t>(std::max(options.workers, 0)), 0), gone_(done_.size(), false) {
  check(options.workers >= 1, "[ps] expected at least one worker, got {}", options.workers);
  check(options.bound >= 0, "[ps] expected a staleness of at least 0, got {}", options.bound);
  check(options.quorum >= 0 && options.quorum <= options.workers, "[ps] expected a quorum in [0, {}], got {}",
        options.workers, options.quorum);
}

void WorkerClocks::join(int worker, std::int64_t clock) {
  auto& done = done_.at(static_cast<std::size_t>(worker));
  done = std::max(done, clock);
  if (gone_[static_cast<std::size_t>(worker)] && least_ != kUnbounded) done = std::max(done, least_);
  gone_[static_cast<std::size_t>(worker)] = false;
  settle();
}

void WorkerClocks::complete(int worker, std::int64_t clock) {
  auto& done = done_.at(static_cast<std::size_t>(worker));
  done = std::max(done, clock + 1);
  settle();
}

void WorkerClocks::retire(int worker) {
  gone_.at(static_cast<std::size_t>(worker)) = true;
  settle();
}

void WorkerClocks::settle() {
  least_ = kUnbounded;
  for (std::size_t i = 0; i < done_.size(); ++i) {
    if (!gone_[i]) least_ = std::min(least_, done_[i]);
  }
}

std::int64_t WorkerClocks::of(int worker) const { return done_.at(static_cast<std::size_t>(worker)); }

bool WorkerClocks::may_read(std::int64_t clock) const {
  return options_.bound == kUnbounded || least_ == kUnbounded || clock - least_ <= options_.bound;
}

bool WorkerClocks::may_apply(std::int64_t clock) const {
  return options_.bound == kUnbounded || least_ == kUnbounded || clock - least_ < options_.bound;
}

bool WorkerClocks::waits_for(int worker) const { return !gone_.at(static_cast<std::size_t>(worker)); }

int WorkerClocks::left() const { return static_cast<int>(std::ranges::count(gone_, false)); }

double counter(const Counters& counters, const std::string& name) {
  const auto found = std::ranges::find(counters, name, &Counters::value_type::first);
  return found == counters.end() ? 0 : found->second;
}

void Histogram::add(std::int64_t value) {
  const auto place = static_cast<std::size_t>(std::clamp<std::int64_t>(value, 0, kMost));
  if (counts_.size() <= place) counts_.resize(place + 1, 0);
  ++counts_[place];
  largest_ = std::max(largest_, value);
}

void Histogram::append_to(Counters& counters, const std::string& name) const {
  for (std::size_t i = 0; i < counts_.size(); ++i)
    counters.emplace_back(fmt::format("{}.{}", name, i), static_cast<double>(counts_[i]));
  counters.emplace_back(name + ".largest", static_cast<double>(largest_));
}

}  // namespace starling::dist::ps
