#include "starling/dist/comm/checking/checking_comm.h"

#include <fmt/format.h>

#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/in_flight.h"

namespace starling {
namespace {

// One call on its way: its fingerprint and those that come back, kept in place until their exchange has ended.
struct Checked {
  Ticket operation;
  Ticket exchange;
  Fingerprint own;
  std::vector<Fingerprint> all;
};

class CheckingComm final : public Comm {
 public:
  CheckingComm(std::unique_ptr<Comm> inner, std::unique_ptr<Comm> side)
      : Comm(inner.get()), inner_(std::move(inner)), side_(std::move(side)) {
    for (std::uint64_t i = 0; i < InFlight<Checked>::kPlaces; ++i) {
      checks_.place(i).all.resize(static_cast<std::size_t>(size()));
    }
  }

  CommCapabilities capabilities() const override { return inner_->capabilities(); }
  std::shared_ptr<Allocator> arena() const override { return inner_->arena(); }
  void abort(std::string_view reason) override { inner_->abort(reason); }

 protected:
  Ticket start(const Call& call) override {
    const std::uint64_t number = begin_check(call);
    Ticket ticket = checks_.place(number).operation = Comm::start(*inner_, call);
    ticket.cookie = number;
    return ticket;
  }

  bool poll(const Ticket& ticket) override {
    Ticket operation, exchange;
    if (!find(ticket.cookie, operation, exchange)) return true;
    if (!Comm::poll(*side_, exchange)) return false;
    verify(ticket.cookie);
    return Comm::poll(*inner_, operation);
  }

  bool await(const Ticket& ticket, CommTime deadline) override {
    Ticket operation, exchange;
    if (!find(ticket.cookie, operation, exchange)) return true;
    if (!await_exchange(operation, exchange, deadline)) return false;
    verify(ticket.cookie);
    return Comm::await(*inner_, operation, deadline);
  }

  void expire(const Ticket& ticket) override {
    Ticket operation, exchange;
    if (find(ticket.cookie, operation, exchange)) Comm::expire(*inner_, operation);
  }

  // The parts are made after the check, as nothing else can go on before they are there.
  std::unique_ptr<Comm> make_part(const Call& call) override {
    const std::uint64_t number = begin_check(call);
    const Ticket exchange = checks_.place(number).exchange;
    if (!Comm::await(*side_, exchange, call.deadline)) Comm::expire(*side_, exchange);
    verify(number);
    auto part = Comm::make_part(*inner_, call);
    checks_.place(number).operation = {.op = call.op, .sequence = call.sequence};
    return part ? make_checking(std::move(part)) : nullptr;
  }

 private:
  bool find(std::uint64_t number, Ticket& operation, Ticket& exchange) {
    return checks_.find(number, [&](const Checked& check) {
      operation = check.operation;
      exchange = check.exchange;
    });
  }

  std::uint64_t begin_check(const Call& call) {
    settle_oldest(call.deadline);
    const std::uint64_t number = checks_.add();
    Checked& check = checks_.place(number);
    check.own = fingerprint_of(call, rank(), epoch());
    check.exchange = exchange(check, call).ticket();
    return number;
  }

  void settle_oldest(CommTime deadline) {
    std::uint64_t number = 0;
    if (!checks_.oldest(number)) return;
    Ticket old = checks_.place(number).operation;
    old.cookie = number;
    if (!await(old, deadline)) expire(old);
  }

  Work exchange(Checked& check, const Call& call) {
    constexpr std::int64_t kBytes = sizeof(Fingerprint);
    switch (call.op) {
      case CommOp::send: return side_->send(&check.own, kBytes, DType::u8, call.peer);
      case CommOp::recv: return side_->recv(check.all.data(), kBytes, DType::u8, call.peer);
      default: return side_->all_gather(&check.own, check.all.data(), kBytes, DType::u8);
    }
  }

  // When the group broke, the operation's own error tells more than that of its fingerprint.
  bool await_exchange(const Ticket& operation, const Ticket& exchange, CommTime deadline) {
    try {
      return Comm::await(*side_, exchange, deadline);
    } catch (const Error&) {
      Comm::await(*inner_, operation, CommClock::now());
      throw;
    }
  }

  void verify(std::uint64_t number) {
    std::string call, mismatch;
    checks_.find(number, [&](const Checked& check) {
      mismatch = mismatch_of(check);
      if (!mismatch.empty()) call = describe(check.own);
    });
    if (mismatch.empty()) return;
    inner_->abort(fmt::format("ranks disagree: {}", mismatch));
    fail_call(call, fmt::format("ranks disagree: {}", mismatch));
  }

  std::string mismatch_of(const Checked& check) const {
    if (check.own.op == CommOp::send) return {};  // the receiver looks
    if (check.own.op != CommOp::recv) return describe_mismatch(check.all);
    const Fingerprint& sent = check.all[0];
    if (sent.agrees_with(check.own)) return {};
    return fmt::format("rank {} calls {}; rank {} calls {}", sent.root, describe(sent), rank(), describe(check.own));
  }

  // Members end in reverse order: the side group before the places it writes to.
  InFlight<Checked> checks_;
  std::unique_ptr<Comm> inner_;
  std::unique_ptr<Comm> side_;
};

}  // namespace

std::unique_ptr<Comm> make_checking(std::unique_ptr<Comm> inner) {
  check(inner != nullptr, "[comm] expected a communicator to check, got null");
  auto side = inner->split(0, inner->rank(), {.name = "fingerprints"});
  return std::make_unique<CheckingComm>(std::move(inner), std::move(side));
}

}  // namespace starling
