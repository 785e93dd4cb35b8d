#include "starling/dist/comm/faulty/faulty_comm.h"

#include <fmt/format.h>

#include <thread>

#include "starling/base/error.h"
#include "starling/dist/comm/in_flight.h"

namespace starling {
namespace {

struct Delayed {
  Ticket ticket;
  CommTime not_before = {};
  bool dead = false;
};

class FaultyComm final : public Comm {
 public:
  FaultyComm(std::unique_ptr<Comm> inner, const FaultPlan& plan)
      : Comm(inner.get()), inner_(std::move(inner)), plan_(plan) {}

  CommCapabilities capabilities() const override { return inner_->capabilities(); }
  std::shared_ptr<Allocator> arena() const override { return inner_->arena(); }
  void abort(std::string_view reason) override { inner_->abort(reason); }

 protected:
  Ticket start(const Call& call) override {
    begin(call);
    settle_oldest(call.deadline);
    const std::uint64_t number = operations_.add();
    Delayed& delayed = operations_.place(number);
    delayed = {};
    delayed.dead = dead();
    if (!delayed.dead) delayed.ticket = Comm::start(*inner_, call);
    if (is_slow()) delayed.not_before = CommClock::now() + plan_.latency;
    return {.op = call.op, .peer = call.peer, .sequence = call.sequence, .cookie = number};
  }

  bool poll(const Ticket& ticket) override {
    Delayed delayed;
    if (!find(ticket, delayed)) return true;
    if (delayed.dead || CommClock::now() < delayed.not_before) return false;
    return Comm::poll(*inner_, delayed.ticket);
  }

  bool await(const Ticket& ticket, CommTime deadline) override {
    Delayed delayed;
    if (!find(ticket, delayed)) return true;
    if (delayed.dead) delayed.not_before = CommTime::max();
    if (!delayed.dead && !Comm::await(*inner_, delayed.ticket, deadline)) return false;
    std::this_thread::sleep_until(std::min(delayed.not_before, deadline));
    return delayed.not_before <= deadline;
  }

  void expire(const Ticket& ticket) override {
    Delayed delayed;
    if (!find(ticket, delayed)) return;
    const std::string call = fmt::format("{} #{}", name(ticket.op), ticket.sequence);
    if (delayed.dead) fail_call(call, kDead);
    if (!Comm::poll(*inner_, delayed.ticket)) return Comm::expire(*inner_, delayed.ticket);
    inner_->abort("the planned latency is longer than the deadline");
    fail_call(call, "the planned latency is longer than the deadline");
  }

  std::unique_ptr<Comm> make_part(const Call& call) override {
    begin(call);
    if (dead()) {
      std::this_thread::sleep_until(call.deadline);
      fail_call(name(call.op), kDead);
    }
    auto part = Comm::make_part(*inner_, call);
    return part ? make_faulty(std::move(part), plan_) : nullptr;
  }

 private:
  static constexpr std::string_view kDead = "this rank is dead as planned and never made the call";

  bool dead() const { return plan_.die_at != 0 && count_ >= plan_.die_at; }
  bool is_slow() const { return plan_.every != 0 && count_ % plan_.every == 0; }

  bool find(const Ticket& ticket, Delayed& delayed) {
    return operations_.find(ticket.cookie, [&](const Delayed& found) { delayed = found; });
  }

  void begin(const Call& call) {
    ++count_;
    if (count_ == plan_.fail_at) {
      const std::string reason = fmt::format("a planned fault at operation {}", count_);
      inner_->abort(reason);
      fail_call(describe(fingerprint_of(call, rank(), epoch())), reason);
    }
    if (is_slow() && !dead()) std::this_thread::sleep_for(plan_.slow_start);
  }

  void settle_oldest(CommTime deadline) {
    std::uint64_t number = 0;
    if (!operations_.oldest(number)) return;
    const Delayed& old = operations_.place(number);
    if (!old.dead && !Comm::await(*inner_, old.ticket, deadline)) Comm::expire(*inner_, old.ticket);
  }

  std::unique_ptr<Comm> inner_;
  FaultPlan plan_;
  std::uint64_t count_ = 0;
  InFlight<Delayed> operations_;
};

}  // namespace

std::unique_ptr<Comm> make_faulty(std::unique_ptr<Comm> inner, const FaultPlan& plan) {
  check(inner != nullptr, "[comm] expected a communicator to disturb, got null");
  return std::make_unique<FaultyComm>(std::move(inner), plan);
}

}  // namespace starling
