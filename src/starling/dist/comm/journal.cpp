#include "starling/dist/comm/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "starling/dist/comm/coarse_clock.h"

namespace starling::dist {
namespace {

double in_milliseconds(CommClock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

}  // namespace

std::uint64_t Journal::next_sequence(CommOp op, int peer) {
  if (!is_point_to_point(op)) return __atomic_add_fetch(&collectives_, 1, __ATOMIC_RELAXED);
  std::scoped_lock lock(mutex_);
  if (op == CommOp::send) return ++sent_[static_cast<std::size_t>(peer)];
  return ++received_[static_cast<std::size_t>(peer)];
}

std::uint64_t Journal::last_sequence(CommOp op, int peer) const {
  if (!is_point_to_point(op)) return __atomic_load_n(&collectives_, __ATOMIC_RELAXED);
  std::scoped_lock lock(mutex_);
  if (op == CommOp::send) return sent_[static_cast<std::size_t>(peer)];
  return received_[static_cast<std::size_t>(peer)];
}

std::uint64_t Journal::started(const Fingerprint& fingerprint, CommTime now) {
  std::scoped_lock lock(mutex_);
  ++counters_[static_cast<std::size_t>(fingerprint.op)].calls;
  Record& record = records_[records_made_ % kRecords];
  record.fingerprint = fingerprint;
  record.start = now;
  record.ended = false;
  return records_made_++;
}

void Journal::finished(std::uint64_t number, CommOp op, std::chrono::nanoseconds waited, CommTime now) {
  std::scoped_lock lock(mutex_);
  counters_[static_cast<std::size_t>(op)].wait_ns += static_cast<std::uint64_t>(waited.count());
  if (number + kRecords < records_made_) return;  // record already reused by a later operation
  Record& record = records_[number % kRecords];
  if (record.ended) return;
  record.ended = true;
  record.end = std::max(now, record.start);  // `now` may come from the coarse clock
  if (!is_point_to_point(op)) last_finished_ = std::max(last_finished_, record.fingerprint.sequence);
}

void Journal::moved(CommOp op, const Traffic& traffic) {
  std::scoped_lock lock(mutex_);
  OpCounters& c = counters_[static_cast<std::size_t>(op)];
  c.bytes_sent += traffic.bytes_sent;
  c.bytes_received += traffic.bytes_received;
  c.steps += traffic.steps;
  c.messages += traffic.messages;
}

void Journal::count_with(Counted elsewhere) {
  std::scoped_lock lock(mutex_);
  elsewhere_ = std::move(elsewhere);
}

void Journal::stop_counting() {
  std::scoped_lock lock(mutex_);
  for (int op = 0; op < kCommOpCount; ++op) counters_[static_cast<std::size_t>(op)] = counted(static_cast<CommOp>(op));
  elsewhere_ = nullptr;
}

OpCounters Journal::counted(CommOp op) const {
  OpCounters c = counters_[static_cast<std::size_t>(op)];
  if (!elsewhere_) return c;
  const Traffic moved = elsewhere_(op);
  c.bytes_sent += moved.bytes_sent;
  c.bytes_received += moved.bytes_received;
  c.steps += moved.steps;
  c.messages += moved.messages;
  return c;
}

OpCounters Journal::counters(CommOp op) const {
  std::scoped_lock lock(mutex_);
  return counted(op);
}

OpCounters Journal::total() const {
  std::scoped_lock lock(mutex_);
  OpCounters sum;
  for (int op = 0; op < kCommOpCount; ++op) {
    const OpCounters c = counted(static_cast<CommOp>(op));
    sum.calls += c.calls;
    sum.bytes_sent += c.bytes_sent;
    sum.bytes_received += c.bytes_received;
    sum.steps += c.steps;
    sum.messages += c.messages;
    sum.wait_ns += c.wait_ns;
  }
  return sum;
}

std::uint64_t Journal::last_finished() const {
  std::scoped_lock lock(mutex_);
  return last_finished_;
}

template <class Line>
std::string Journal::lines(Line line) const {
  std::scoped_lock lock(mutex_);
  const std::uint64_t first = records_made_ > kRecords ? records_made_ - kRecords : 0;
  const CommTime now = CommClock::now();
  std::string text;
  for (std::uint64_t i = first; i < records_made_; ++i) text += line(records_[i % kRecords], now);
  return text;
}

std::string Journal::dump() const {
  return lines([](const Record& r, CommTime now) {
    return fmt::format(
        "  {} {:.0f} ms ago: {}\n", describe(r.fingerprint), in_milliseconds(now - r.start),
        r.ended ? fmt::format("finished within {:.0f} ms", in_milliseconds(r.end - r.start + kTick)) : "not finished");
  });
}

std::string Journal::waiting() const {
  return lines([](const Record& r, CommTime now) {
    if (r.ended) return std::string();
    return fmt::format("  {} since {:.3f} s\n", describe(r.fingerprint), in_milliseconds(now - r.start) * 1e-3);
  });
}

}  // namespace starling::dist
