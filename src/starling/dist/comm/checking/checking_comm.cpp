#include "starling/dist/comm/checking/checking_comm.h"

#include <fmt/format.h>

#include <atomic>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/checking/watch.h"
#include "starling/dist/comm/coarse_clock.h"
#include "starling/dist/comm/in_flight.h"

namespace starling::dist {
namespace {

// Outstanding call: its fingerprint and those received, kept in place until their exchange has ended.
struct Checked {
  Ticket operation;
  Ticket exchange;
  Fingerprint own;
  std::vector<Fingerprint> all;
  CommTime start = {};
  CommTime deadline = {};
  std::atomic<std::uint64_t> ended{0};  // 1 + number of the last operation in this slot that a wait saw end
};

// Innermost reason of an error, without the call descriptions that fail_call adds.
std::string reason_of(const Error& error) {
  const std::string text = error.what();
  std::string line = text.substr(0, text.find('\n'));
  constexpr std::string_view kEpoch = ", epoch ";
  if (const auto call = line.rfind(kEpoch); call != std::string::npos) {
    const auto reason = line.find(": ", call);
    if (reason != std::string::npos) line.erase(0, reason + 2);
  }
  return line;
}

class CheckingComm final : public Comm {
 public:
  CheckingComm(std::unique_ptr<Comm> inner, const CheckingOptions& options)
      : Comm(inner.get()), options_(options), inner_(std::move(inner)), watch_(*inner_) {
    if (options.exchange_always || !inner_->capabilities().checks_calls)
      side_ = Comm::make_side(*inner_, "fingerprints");
    for (std::uint64_t i = 0; side_ && i < InFlight<Checked>::kSlots; ++i) {
      checks_.slot(i).all.resize(static_cast<std::size_t>(size()));
    }
  }

  CommCapabilities capabilities() const override {
    CommCapabilities c = inner_->capabilities();
    c.checks_calls = true;
    return c;
  }
  std::shared_ptr<Allocator> arena() const override { return inner_->arena(); }
  void abort(std::string_view reason) override { inner_->abort(reason); }
  void tell(const RankStatus& status) override { inner_->tell(status); }
  RankStatus heard(int rank) override { return inner_->heard(rank); }

 protected:
  Ticket start(const Call& call) override {
    const std::uint64_t number = begin_check(call);
    Ticket ticket = checks_.slot(number).operation = Comm::start(*inner_, call);
    ticket.cookie = number;
    return ticket;
  }

  bool poll(const Ticket& ticket) override {
    Look check;
    if (!find(ticket.cookie, check)) return true;
    if (side_ && !look(check, *side_, check.exchange)) return false;
    verify(ticket.cookie);
    return look(check, *inner_, check.operation) && end(ticket.cookie);
  }

  bool await(const Ticket& ticket, CommTime deadline) override {
    Look check;
    if (!find(ticket.cookie, check)) return true;
    if (!await_exchange(check, deadline)) return false;
    verify(ticket.cookie);
    const auto operation = [&](CommTime until) { return Comm::await(*inner_, check.operation, until); };
    return watch_.wait(subject(check, deadline), deadline, operation, GiveUp{*this, check.own}) && end(ticket.cookie);
  }

  void expire(const Ticket& ticket) override {
    Look check;
    if (find(ticket.cookie, check)) Comm::expire(*inner_, check.operation);
  }

  // New groups are made after the check; nothing else can proceed before they exist.
  std::unique_ptr<Comm> make_part(const Call& call) override {
    const std::uint64_t number = begin_check(call);
    checks_.slot(number).operation = {.op = call.op, .sequence = call.sequence};
    Look check;
    find(number, check);
    if (!await_exchange(check, call.deadline)) Comm::expire(*side_, check.exchange);
    verify(number);
    watch_.tell_waiting({check.own});
    auto part = Comm::make_part(*inner_, call);
    return part ? make_checking_with(std::move(part), options_) : nullptr;
  }

 private:
  struct Look {
    Ticket operation, exchange;
    Fingerprint own;
    CommTime start, deadline;
  };

  struct GiveUp {
    CheckingComm& comm;
    const Fingerprint& call;
    void operator()(const std::string& why) const { comm.break_over(call, fmt::format("ranks wait in vain: {}", why)); }
  };

  bool find(std::uint64_t number, Look& look) {
    return checks_.find(number, [&](const Checked& check) {
      look = {check.operation, check.exchange, check.own, check.start, check.deadline};
    });
  }

  // Marks the operation as ended. Harmless if its slot has been reused since.
  bool end(std::uint64_t number) {
    checks_.slot(number).ended.store(number + 1, std::memory_order_relaxed);
    return true;
  }

  std::uint64_t begin_check(const Call& call) {
    watch_.calling();
    settle_oldest(call.deadline);
    const std::uint64_t number = checks_.add();
    Checked& check = checks_.slot(number);
    check.own = fingerprint_of(call, rank(), epoch());
    check.start = about_now();
    check.deadline = call.deadline;
    if (side_) check.exchange = exchange(check, call).ticket();
    return number;
  }

  // Waits for the operation whose slot is needed. Splits have ended when they return.
  void settle_oldest(CommTime deadline) {
    std::uint64_t number = 0;
    if (!checks_.oldest(number)) return;
    if (checks_.slot(number).ended.load(std::memory_order_relaxed) == number + 1) return;
    Ticket old = checks_.slot(number).operation;
    old.cookie = number;
    if (old.op != CommOp::split && !await(old, deadline)) expire(old);
  }

  Work exchange(Checked& check, const Call& call) {
    constexpr std::int64_t kBytes = sizeof(Fingerprint);
    switch (call.op) {
      case CommOp::send: return side_->send(&check.own, kBytes, DType::u8, call.peer);
      case CommOp::recv: return side_->recv(check.all.data(), kBytes, DType::u8, call.peer);
      default: return side_->all_gather(&check.own, check.all.data(), kBytes, DType::u8);
    }
  }

  // A wait that ends before the call's own deadline is not for good: that thread may still make other calls.
  Watch::Subject subject(const Look& check, CommTime deadline) const {
    const int peer = is_point_to_point(check.own.op) ? check.operation.peer : -1;
    return {check.own, peer, deadline >= check.deadline};
  }

  bool look(const Look& check, Comm& comm, const Ticket& ticket) {
    const auto poll = [&] { return Comm::poll(comm, ticket); };
    return watch_.look(subject(check, check.start), check.start, poll, GiveUp{*this, check.own});
  }

  [[noreturn]] void break_over(const Fingerprint& call, const std::string& why) {
    inner_->abort(why);
    fail_call(describe(call), why);
  }

  bool await_exchange(const Look& check, CommTime deadline) {
    if (!side_) return true;
    const auto exchange = [&](CommTime until) { return Comm::await(*side_, check.exchange, until); };
    try {
      return watch_.wait(subject(check, deadline), deadline, exchange, GiveUp{*this, check.own});
    } catch (const Error& error) {
      // Prefer the operation's own error to that of its fingerprint; if only the side group broke, the operation must
      // still release its buffers.
      inner_->abort(fmt::format("its fingerprint did not arrive: {}", reason_of(error)));
      if (check.own.op != CommOp::split) Comm::await(*inner_, check.operation, CommClock::now());
      throw;
    }
  }

  void verify(std::uint64_t number) {
    if (!side_) return;
    Fingerprint own;
    std::string mismatch;
    checks_.find(number, [&](const Checked& check) {
      mismatch = mismatch_of(check);
      own = check.own;
    });
    if (!mismatch.empty()) break_over(own, fmt::format("ranks disagree: {}", mismatch));
  }

  std::string mismatch_of(const Checked& check) const {
    if (check.own.op == CommOp::send) return {};  // the receiver compares
    if (check.own.op != CommOp::recv) return describe_mismatch(check.all);
    const Fingerprint& sent = check.all[0];
    if (sent.agrees_with(check.own)) return {};
    return fmt::format("rank {} calls {}; rank {} calls {}", sent.root, describe(sent), rank(), describe(check.own));
  }

  // Members are destroyed in reverse order: the side group before the slots it writes to.
  const CheckingOptions options_;
  InFlight<Checked> checks_;
  std::unique_ptr<Comm> inner_;
  Watch watch_;
  std::unique_ptr<Comm> side_;  // null: the backend compares calls itself
};

}  // namespace

std::unique_ptr<Comm> make_checking(std::unique_ptr<Comm> inner) { return make_checking_with(std::move(inner), {}); }

std::unique_ptr<Comm> make_checking_with(std::unique_ptr<Comm> inner, const CheckingOptions& options) {
  check(inner != nullptr, "[comm] expected a communicator to check, got null");
  return std::make_unique<CheckingComm>(std::move(inner), options);
}

}  // namespace starling::dist
