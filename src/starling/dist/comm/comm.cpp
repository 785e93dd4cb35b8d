#include "starling/dist/comm/comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "starling/base/error.h"
#include "starling/dist/comm/call_checks.h"
#include "starling/dist/comm/coarse_clock.h"

namespace starling {
namespace {

using std::chrono::milliseconds;

CommTime deadline_after(milliseconds time, CommTime now) {
  return now + std::min(time, kNoDeadline);  // keeps clock arithmetic far from overflow
}

std::int64_t total(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

// Checks a call and fills in its name, deadline and sequence number.
void fill(Call& call, const CallOptions& options, CommTime now, const CommGroup& group, dist::Journal& journal) {
  dist::check_call(call, group);
  call.name = options.name;
  call.deadline = deadline_after(options.deadline.count() > 0 ? options.deadline : group.deadline, now);
  call.sequence = journal.next_sequence(call.op, call.peer);
}

}  // namespace

// Latency-critical: the other ranks wait for this one until start() returns, so only what they need comes before it;
// the flight-recorder entry is written while they arrive. Inlined, so that the call is not copied: a block read of
// fields just written one by one causes a store-forwarding stall longer than all the rest.
[[gnu::always_inline]] inline Work Comm::submit(Call call, const CallOptions& options) {
  fill(call, options, dist::about_now() + dist::kTick, group_, log());
  const auto note = [&] { return log().started(dist::fingerprint_of(call, rank(), epoch()), dist::about_now()); };
  try {
    const Ticket ticket = start(call);
    return Work(*this, ticket, call.deadline, note());
  } catch (...) {
    note();
    throw;
  }
}

Work Comm::broadcast(void* data, std::int64_t count, DType dtype, int root, const CallOptions& options) {
  return submit({.op = CommOp::broadcast, .dtype = dtype, .peer = root, .count = count, .send = data, .recv = data},
                options);
}

Work Comm::all_reduce(const void* send, void* recv, std::int64_t count, DType dtype, ReduceOp reduce,
                      const CallOptions& options) {
  return submit(
      {.op = CommOp::all_reduce, .dtype = dtype, .reduce = reduce, .count = count, .send = send, .recv = recv},
      options);
}

Work Comm::reduce_scatter(const void* send, void* recv, std::int64_t count, DType dtype, ReduceOp reduce,
                          const CallOptions& options) {
  return submit(
      {.op = CommOp::reduce_scatter, .dtype = dtype, .reduce = reduce, .count = count, .send = send, .recv = recv},
      options);
}

Work Comm::reduce_scatter(const void* send, void* recv, std::span<const std::int64_t> counts, DType dtype,
                          ReduceOp reduce, const CallOptions& options) {
  dist::check_counts(CommOp::reduce_scatter, counts, size());
  return submit({.op = CommOp::reduce_scatter,
                 .dtype = dtype,
                 .reduce = reduce,
                 .count = total(counts),
                 .counts = counts,
                 .send = send,
                 .recv = recv},
                options);
}

Work Comm::all_gather(const void* send, void* recv, std::int64_t count, DType dtype, const CallOptions& options) {
  return submit({.op = CommOp::all_gather, .dtype = dtype, .count = count, .send = send, .recv = recv}, options);
}

Work Comm::all_gather(const void* send, void* recv, std::span<const std::int64_t> counts, DType dtype,
                      const CallOptions& options) {
  dist::check_counts(CommOp::all_gather, counts, size());
  return submit(
      {.op = CommOp::all_gather, .dtype = dtype, .count = total(counts), .counts = counts, .send = send, .recv = recv},
      options);
}

Work Comm::all_to_all(const void* send, void* recv, std::int64_t count, DType dtype, const CallOptions& options) {
  return submit({.op = CommOp::all_to_all, .dtype = dtype, .count = count, .send = send, .recv = recv}, options);
}

Work Comm::gather(const void* send, void* recv, std::int64_t count, DType dtype, int root, const CallOptions& options) {
  return submit({.op = CommOp::gather, .dtype = dtype, .peer = root, .count = count, .send = send, .recv = recv},
                options);
}

Work Comm::gather(const void* send, void* recv, std::span<const std::int64_t> counts, DType dtype, int root,
                  const CallOptions& options) {
  dist::check_counts(CommOp::gather, counts, size());
  return submit({.op = CommOp::gather,
                 .dtype = dtype,
                 .peer = root,
                 .count = total(counts),
                 .counts = counts,
                 .send = send,
                 .recv = recv},
                options);
}

Work Comm::scatter(const void* send, void* recv, std::int64_t count, DType dtype, int root,
                   const CallOptions& options) {
  return submit({.op = CommOp::scatter, .dtype = dtype, .peer = root, .count = count, .send = send, .recv = recv},
                options);
}

Work Comm::scatter(const void* send, void* recv, std::span<const std::int64_t> counts, DType dtype, int root,
                   const CallOptions& options) {
  dist::check_counts(CommOp::scatter, counts, size());
  return submit({.op = CommOp::scatter,
                 .dtype = dtype,
                 .peer = root,
                 .count = total(counts),
                 .counts = counts,
                 .send = send,
                 .recv = recv},
                options);
}

Work Comm::send(const void* data, std::int64_t count, DType dtype, int to, const CallOptions& options) {
  return submit({.op = CommOp::send, .dtype = dtype, .peer = to, .count = count, .send = data}, options);
}

Work Comm::recv(void* data, std::int64_t count, DType dtype, int from, const CallOptions& options) {
  return submit({.op = CommOp::recv, .dtype = dtype, .peer = from, .count = count, .recv = data}, options);
}

Work Comm::barrier(const CallOptions& options) { return submit({.op = CommOp::barrier}, options); }

Work Comm::sum_shards(const void* send, std::int64_t shards, void* recv, std::int64_t count, DType dtype,
                      const CallOptions& options) {
  check(capabilities().sum_shards, "[comm] expected a backend with sum_shards, got {}: call ordered_sum",
        capabilities().backend);
  return submit(
      {.op = CommOp::sum_shards, .dtype = dtype, .count = count, .shards = shards, .send = send, .recv = recv},
      options);
}

std::unique_ptr<Comm> Comm::split(int color, int key, const CallOptions& options) {
  const CommTime begin = CommClock::now();
  const Call call =
      prepare({.op = CommOp::split, .dtype = DType::i64, .count = 2, .color = color, .key = key}, options, begin);
  const std::uint64_t record = log().started(dist::fingerprint_of(call, rank(), epoch()), begin);
  std::unique_ptr<Comm> part;
  {
    const dist::RankProgress::Waiting waiting(rank_progress());
    part = make_part(call);
  }
  log().finished(record, call.op, CommClock::now() - begin);
  return part;
}

Call Comm::prepare(Call call, const CallOptions& options, CommTime now) {
  fill(call, options, now, group_, log());
  return call;
}

bool Comm::finish(const Work& work, CommTime deadline) {
  // Last rank to arrive: the operation is already over, no time was spent waiting, and a coarse clock will do.
  if (poll(work.ticket_)) {
    log().finished(work.record_, work.ticket_.op, {}, dist::about_now());
    if (group_.rank_progress) group_.rank_progress->progress();
    return true;
  }
  const CommTime begin = CommClock::now();
  {
    const dist::RankProgress::Waiting waiting(rank_progress());
    if (!await(work.ticket_, deadline)) return false;
  }
  if (group_.rank_progress) group_.rank_progress->progress();
  const CommTime end = CommClock::now();
  log().finished(work.record_, work.ticket_.op, end - begin, end);
  return true;
}

bool Comm::test(const Work& work) {
  if (!poll(work.ticket_)) return false;
  log().finished(work.record_, work.ticket_.op, {});
  return true;
}

std::string Comm::abort_text(std::string_view reason) const {
  const std::string finding = dist::finding_in(reason);
  return !finding.empty() ? finding : fmt::format("rank {} of group '{}' aborted: {}", rank(), group_.label, reason);
}

void Comm::fail_call(std::string_view call, std::string_view reason) const {
  if (const std::string finding = dist::finding_in(reason); !finding.empty()) {
    fail(
        "{};\nrank {} of {} was in {} of group '{}', epoch {}; last finished here #{}\nlast operations of rank {}:\n{}",
        finding, rank(), size(), call, group_.label, epoch(), journal_->last_finished(), rank(), journal_->dump());
  }
  fail(
      "[comm] {} on rank {} of {} in group '{}', epoch {}: {}; last finished here #{}\nlast operations of rank {}:\n{}",
      call, rank(), size(), group_.label, epoch(), reason, journal_->last_finished(), rank(), journal_->dump());
}

namespace dist {

std::string finding_in(std::string_view text) {
  const auto begin = text.find(kSupervision);
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin);
  text = text.substr(0, text.find('\n'));
  return std::string(text.substr(0, text.find_last_not_of(';') + 1));
}

}  // namespace dist

bool Work::done() const { return comm_ == nullptr || comm_->test(*this); }

void Work::wait() const { wait_until(deadline_); }

void Work::wait_until(CommTime deadline) const {
  if (comm_ != nullptr && !comm_->finish(*this, deadline)) comm_->expire(ticket_);
}

bool Work::wait_for(milliseconds time) const {
  return comm_ == nullptr || comm_->finish(*this, deadline_after(time, CommClock::now()));
}

}  // namespace starling
