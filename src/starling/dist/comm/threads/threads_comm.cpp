#include "starling/dist/comm/threads/threads_comm.h"

#include <fmt/format.h>

#include <thread>

#include "starling/base/error.h"
#include "starling/dist/comm/threads/hub.h"

namespace starling {
namespace {

class ThreadsComm final : public Comm {
 public:
  ThreadsComm(const CommGroup& group, std::shared_ptr<dist::Hub> hub)
      : Comm(group, std::make_shared<dist::Journal>(group.size)), hub_(std::move(hub)) {}
  ~ThreadsComm() override { hub_->leave(rank(), journal()); }

  CommCapabilities capabilities() const override {
    return {.backend = "threads",
            .direct_memory = true,
            .sum_shards = true,
            .rank_ordered = true,
            .deterministic = true,
            .survives_loss = true,
            .checks_calls = true};
  }

  void abort(std::string_view reason) override { hub_->family().break_with(abort_text(reason)); }
  void tell(const dist::RankStatus& status) override { hub_->tell(rank(), status); }
  dist::RankStatus heard(int rank) override { return hub_->heard(rank); }

 protected:
  Ticket start(const Call& call) override {
    const dist::Fingerprint print = dist::fingerprint_of(call, rank(), epoch());
    if (!hub_->post(call, print, rank())) fail_call(describe(print), hub_->family().reason());
    log().moved(call.op, dist::traffic_of(call, rank(), size()));
    return {.op = call.op, .peer = call.peer, .sequence = call.sequence};
  }

  bool poll(const Ticket& ticket) override {
    if (hub_->done(ticket, rank())) return true;
    return hub_->family().broken() && await(ticket, CommClock::now());
  }

  bool await(const Ticket& ticket, CommTime deadline) override {
    const dist::Hub::Outcome outcome = hub_->await(ticket, rank(), deadline);
    if (outcome == dist::Hub::Outcome::broken) fail_call(hub_->describe_call(ticket, rank()), hub_->family().reason());
    return outcome == dist::Hub::Outcome::ended;
  }

  void expire(const Ticket& ticket) override {
    hub_->expire(ticket, rank());
    fail_call(hub_->describe_call(ticket, rank()), hub_->family().reason());
  }

  std::unique_ptr<Comm> make_part(const Call& call) override {
    const Ticket ticket = start(call);
    if (!await(ticket, call.deadline)) expire(ticket);
    const dist::Hub::Part part = hub_->take_part(call.sequence, rank());
    if (!part.hub) return nullptr;
    CommGroup inner = group();
    inner.rank = part.rank;
    inner.size = part.size;
    inner.label = part.label;
    return std::make_unique<ThreadsComm>(inner, part.hub);
  }

 private:
  std::shared_ptr<dist::Hub> hub_;
};

// Spinning helps only while every rank has a core to itself.
int spins_for(int world, int asked) {
  if (asked >= 0) return asked;
  return static_cast<unsigned>(world) <= std::thread::hardware_concurrency() ? 500 : 0;
}

// Keeps the first failure: the errors of other ranks only follow from it.
class FirstFailure {
 public:
  void capture() {
    std::scoped_lock lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

void run_rank(Comm& comm, FunctionRef<void(Comm&)> body, FirstFailure& failure) {
  set_thread_rank(comm.rank());
  try {
    body(comm);
  } catch (const std::exception& error) {
    failure.capture();
    comm.abort(error.what());
  } catch (...) {
    failure.capture();
    comm.abort("an exception that is no std::exception");
  }
}

}  // namespace

std::vector<std::unique_ptr<Comm>> make_thread_comms(int world, const ThreadWorldOptions& options) {
  check(world >= 1, "[comm] expected a world of at least 1 rank, got {}", world);
  const auto family = std::make_shared<dist::Family>(spins_for(world, options.spins));
  const auto hub = std::make_shared<dist::Hub>(family, world, options.label);
  std::vector<std::unique_ptr<Comm>> comms;
  for (int rank = 0; rank < world; ++rank) {
    CommGroup group{rank, world, options.epoch, options.label, options.deadline};
    if (!options.pulses.empty()) group.pulse = options.pulses.at(static_cast<std::size_t>(rank));
    comms.push_back(std::make_unique<ThreadsComm>(group, hub));
  }
  return comms;
}

void run_ranks(std::span<const std::unique_ptr<Comm>> comms, FunctionRef<void(Comm&)> body) {
  FirstFailure failure;
  std::vector<std::jthread> threads;
  for (const auto& comm : comms) threads.emplace_back([&] { run_rank(*comm, body, failure); });
  threads.clear();
  failure.rethrow();
}

}  // namespace starling
