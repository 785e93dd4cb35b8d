#include "starling/dist/ps/gate.h"

#include <algorithm>

namespace starling::dist::ps {
void keep(Bytes& bytes) {
  if (!bytes.borrowed || bytes.size == 0) return;
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes.data, bytes.data + bytes.size);
  bytes = {copy, copy->data(), copy->size(), false};
}

std::vector<Step> Gate::push(Push push) {
  if (means() && push.clock < round_) {
    ++late_;
    return {};
  }
  const int worker = push.worker;
  const std::int64_t clock = push.clock;
  clocks_.complete(worker, clock);
  if (!means() && waiting_.empty() && clocks_.may_apply(clock)) return {{std::move(push)}};  // the common case
  auto& mine = waiting_[clock][worker];
  if (means() && !mine.empty()) return {};  // one of each worker counts
  mine.push_back(std::move(push));
  std::vector<Step> steps = release();
  if (const auto at = waiting_.find(clock); at != waiting_.end() && at->second.contains(worker)) {
    Push& held = at->second[worker].back();
    keep(held.rows);
    keep(held.values);
  }
  return steps;
}

std::vector<Step> Gate::tick(int worker, std::int64_t clock) {
  if (means() && clock >= round_ && !waiting_[clock].contains(worker))
    waiting_[clock][worker].push_back({.worker = worker, .clock = clock, .weight = 0});
  clocks_.complete(worker, clock);
  return release();
}

std::vector<Step> Gate::retire(int worker) {
  clocks_.retire(worker);
  return release();
}

std::vector<Step> Gate::join(int worker, std::int64_t clock) {
  clocks_.join(worker, clock);
  if (means() && clocks_.least() != kUnbounded) round_ = std::max(round_, clocks_.least());
  return release();
}

bool Gate::round_complete() const {
  const auto at = waiting_.find(round_);
  if (at == waiting_.end()) return false;
  const auto& here = at->second;
  if (options_.quorum > 0)
    return static_cast<int>(here.size()) >= std::min(options_.quorum, std::max(clocks_.left(), 1));
  for (int w = 0; w < options_.workers; ++w) {
    if (clocks_.waits_for(w) && !here.contains(w)) return false;
  }
  return true;
}

std::vector<Step> Gate::release_rounds() {
  std::vector<Step> steps;
  for (; round_complete(); ++round_) {
    Step step;
    for (auto& [worker, pushes] : waiting_[round_]) {
      if (pushes[0].weight > 0) step.push_back(std::move(pushes[0]));
    }
    waiting_.erase(round_);
    if (!step.empty()) steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<Step> Gate::release() {
  if (means()) return release_rounds();
  std::vector<Step> steps;
  while (!waiting_.empty() && clocks_.may_apply(waiting_.begin()->first)) {
    for (auto& [worker, pushes] : waiting_.begin()->second) {
      for (Push& push : pushes) steps.push_back({std::move(push)});
    }
    waiting_.erase(waiting_.begin());
  }
  return steps;
}

bool Gate::may_read(std::int64_t clock) const {
  if (!means()) return clocks_.may_read(clock);
  return options_.bound == kUnbounded || clocks_.left() == 0 || clock - round_ <= options_.bound;
}

std::int64_t Gate::least() const { return means() ? round_ : clocks_.least(); }

std::size_t Gate::held() const {
  std::size_t count = 0;
  for (const auto& [clock, workers] : waiting_) {
    for (const auto& [worker, pushes] : workers) count += pushes.size();
  }
  return count;
}

}  // namespace starling::dist::ps
