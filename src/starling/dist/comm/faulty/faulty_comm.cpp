#include "starling/dist/comm/faulty/faulty_comm.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>
#include <utility>

#include "starling/base/error.h"
#include "starling/dist/comm/call_checks.h"
#include "starling/dist/comm/in_flight.h"

namespace starling::dist {
namespace {

struct Disturbed {
  Ticket ticket;
  CommTime not_before = {};
  bool lost = false;             // never forwarded
  std::byte* corrupt = nullptr;  // byte of the result to damage
};

// Size of the result that the operation writes to recv on this rank.
std::size_t bytes_received(const Call& call, int rank, int world) {
  const std::size_t size = size_of(call.dtype);
  const auto piece = [&] { return static_cast<std::size_t>(piece_length(call, rank)) * size; };
  switch (call.op) {
    case CommOp::reduce_scatter:
    case CommOp::scatter: return piece();
    case CommOp::gather:
      if (call.peer != rank) return 0;
      break;
    case CommOp::barrier:
    case CommOp::split:
    case CommOp::send: return 0;
    default: break;
  }
  return static_cast<std::size_t>(whole_length(call, world)) * size;
}

class FaultyComm final : public Comm {
 public:
  FaultyComm(std::unique_ptr<Comm> inner, const FaultPlan& plan)
      : Comm(inner.get()), inner_(std::move(inner)), plan_(plan), idle_since_(CommClock::now()) {}

  CommCapabilities capabilities() const override { return inner_->capabilities(); }
  std::shared_ptr<Allocator> arena() const override { return inner_->arena(); }
  void abort(std::string_view reason) override { inner_->abort(reason); }
  void tell(const RankStatus& status) override {
    if (!dead()) inner_->tell(status);
  }
  RankStatus heard(int rank) override { return dead() ? RankStatus{} : inner_->heard(rank); }

 protected:
  Ticket start(const Call& call) override {
    begin(call);
    settle_oldest(call.deadline);
    const std::uint64_t number = operations_.add();
    Disturbed& operation = operations_.slot(number);
    operation = {};
    operation.lost = dead() || count_ == plan_.drop_at;
    if (!operation.lost) operation.ticket = Comm::start(*inner_, call);
    if (count_ == plan_.corrupt_at) operation.corrupt = middle_of_result(call);
    if (is_slow()) operation.not_before = CommClock::now() + plan_.latency;
    return {.op = call.op, .peer = call.peer, .sequence = call.sequence, .cookie = number};
  }

  bool poll(const Ticket& ticket) override {
    Disturbed operation;
    if (!find(ticket, operation)) return true;
    if (operation.lost || CommClock::now() < operation.not_before) return false;
    return Comm::poll(*inner_, operation.ticket) && end(ticket);
  }

  bool await(const Ticket& ticket, CommTime deadline) override {
    Disturbed operation;
    if (!find(ticket, operation)) return true;
    if (operation.lost) return await_nothing(deadline);
    if (!Comm::await(*inner_, operation.ticket, deadline)) return false;
    std::this_thread::sleep_until(std::min(operation.not_before, deadline));
    return operation.not_before <= deadline && end(ticket);
  }

  void expire(const Ticket& ticket) override {
    Disturbed operation;
    if (!find(ticket, operation)) return;
    const std::string call = fmt::format("{} #{}", name(ticket.op), ticket.sequence);
    if (dead()) fail_call(call, kDead);
    if (operation.lost) break_over(call, "the deadline has passed; the operation was lost on the way, as planned");
    if (!Comm::poll(*inner_, operation.ticket)) return Comm::expire(*inner_, operation.ticket);
    break_over(call, "the planned latency is longer than the deadline");
  }

  std::unique_ptr<Comm> make_part(const Call& call) override {
    begin(call);
    if (dead() || count_ == plan_.drop_at) {
      await_nothing(call.deadline);
      fail_call(name(call.op), dead() ? kDead : "the operation was lost on the way, as planned");
    }
    auto part = Comm::make_part(*inner_, call);
    idle_since_.store(CommClock::now());
    return part ? make_faulty(std::move(part), plan_) : nullptr;
  }

 private:
  static constexpr std::string_view kDead = "this rank is dead as planned and never made the call";

  bool dead() const { return plan_.die_at != 0 && count_ >= plan_.die_at; }
  bool is_slow() const { return plan_.every != 0 && count_ % plan_.every == 0; }

  [[noreturn]] void break_over(const std::string& call, std::string_view why) {
    inner_->abort(why);
    fail_call(call, why);
  }

  bool find(const Ticket& ticket, Disturbed& operation) {
    return operations_.find(ticket.cookie, [&](const Disturbed& found) { operation = found; });
  }

  void begin(const Call& call) {
    const std::uint64_t count = ++count_;
    if (count == plan_.fail_at) {
      const std::string reason = fmt::format("a planned fault at operation {}", count);
      break_over(describe(fingerprint_of(call, rank(), epoch())), reason);
    }
    if (dead()) return die();
    if (is_slow()) std::this_thread::sleep_for(plan_.slow_start);
    if (plan_.slow_factor > 1) {
      std::this_thread::sleep_for((CommClock::now() - idle_since_.load()) * (plan_.slow_factor - 1));
      idle_since_.store(CommClock::now());
    }
  }

  void die() const {
    if (plan_.death == FaultPlan::Death::exit) ::_exit(FaultPlan::kExitCode);
    if (plan_.death == FaultPlan::Death::signal) (void)::raise(SIGKILL);
  }

  bool await_nothing(CommTime deadline) {
    std::this_thread::sleep_until(deadline);
    return false;
  }

  std::byte* middle_of_result(const Call& call) const {
    const std::size_t bytes = bytes_received(call, rank(), size());
    return bytes == 0 || call.recv == nullptr ? nullptr : static_cast<std::byte*>(call.recv) + bytes / 2;
  }

  // Damages the result once, when its end is first seen.
  bool end(const Ticket& ticket) {
    operations_.find(ticket.cookie, [](Disturbed& operation) {
      if (std::byte* at = std::exchange(operation.corrupt, nullptr)) *at ^= std::byte{1};
    });
    idle_since_.store(CommClock::now());
    return true;
  }

  void settle_oldest(CommTime deadline) {
    std::uint64_t number = 0;
    if (!operations_.oldest(number)) return;
    const Disturbed& old = operations_.slot(number);
    if (!old.lost && !Comm::await(*inner_, old.ticket, deadline)) Comm::expire(*inner_, old.ticket);
  }

  std::unique_ptr<Comm> inner_;
  const FaultPlan plan_;
  std::atomic<std::uint64_t> count_{0};
  std::atomic<CommTime> idle_since_;
  InFlight<Disturbed> operations_;
};

}  // namespace

std::unique_ptr<Comm> make_faulty(std::unique_ptr<Comm> inner, const FaultPlan& plan) {
  check(inner != nullptr, "[comm] expected a communicator to disturb, got null");
  return std::make_unique<FaultyComm>(std::move(inner), plan);
}

}  // namespace starling::dist
