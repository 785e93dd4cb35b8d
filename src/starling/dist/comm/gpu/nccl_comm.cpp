#include "starling/dist/comm/gpu/nccl_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/call_checks.h"
#include "starling/dist/comm/checking/checking_comm.h"
#include "starling/dist/comm/gpu/nccl_calls.h"
#include "starling/dist/comm/in_flight.h"

namespace starling::dist {
namespace {

using std::chrono::microseconds;

// An NCCL communicator and the stream its operations run on.
struct Lane {
  NcclHandle comm = nullptr;
  DeviceStream stream = nullptr;
};

// Both lanes of a rank in a group.
struct Lanes {
  Lane collectives, messages;
};

struct Launched {
  DeviceEvent ready = nullptr;  // producer's stream has reached the call
  DeviceEvent done = nullptr;   // communicator's stream has completed the operation
  bool started = false;         // submitted to NCCL
};

class NcclComm final : public Comm {
 public:
  NcclComm(std::shared_ptr<const NcclApi> api, std::unique_ptr<Comm> control, const NcclOptions& options)
      : Comm(control->group(), std::make_shared<Journal>(control->size())),
        api_(std::move(api)),
        options_(options),
        control_(std::move(control)) {
    for (std::uint64_t i = 0; i < InFlight<Launched>::kSlots; ++i) {
      operations_.slot(i).ready = api_->make_event();
      operations_.slot(i).done = api_->make_event();
    }
    lanes_.collectives.stream = api_->make_stream();
    lanes_.messages.stream = api_->make_stream();
    drained_ = api_->make_event();
    word_ = api_->allocate(sizeof(std::int32_t));
  }

  ~NcclComm() override {
    std::scoped_lock lock(launching_);
    end(lanes_.messages);
    end(lanes_.collectives);
    for (std::uint64_t i = 0; i < InFlight<Launched>::kSlots; ++i) {
      api_->free_event(operations_.slot(i).ready);
      api_->free_event(operations_.slot(i).done);
    }
    api_->free_event(drained_);
    api_->free_stream(lanes_.collectives.stream);
    api_->free_stream(lanes_.messages.stream);
    api_->free(word_);
  }

  CommCapabilities capabilities() const override {
    return {.backend = "nccl", .survives_loss = true, .device_memory = true};
  }

  void abort(std::string_view reason) override {
    announce(reason);  // first: whoever waits with launching_ held lets go of it
    control_->abort(reason);
    break_with(abort_text(reason));
  }

  void tell(const RankStatus& status) override { control_->tell(status); }
  RankStatus heard(int rank) override { return control_->heard(rank); }

  // Joins the ranks: rank 0's id makes the communicator of collectives, which is split into that of messages.
  void connect(CommTime deadline) {
    std::scoped_lock lock(launching_);
    NcclId id;
    if (rank() == 0) expect(api_->get_unique_id(id), nullptr, "ncclGetUniqueId");
    control_->broadcast(id.bytes.data(), static_cast<std::int64_t>(id.bytes.size()), DType::u8, 0, {.name = "nccl id"})
        .wait_until(deadline);
    const NcclResult joined = api_->init_rank(lanes_.collectives.comm, size(), id, rank());
    settle(joined, lanes_.collectives.comm, deadline, "ncclCommInitRank");
    connect_messages(deadline);
  }

  // Same for a group made by split: its NCCL communicator exists already.
  void connect(NcclHandle collectives, CommTime deadline) {
    std::scoped_lock lock(launching_);
    lanes_.collectives.comm = collectives;
    connect_messages(deadline);
  }

 protected:
  Ticket start(const Call& call) override {
    check_type(call);
    {
      const RankProgress::Waiting waiting(rank_progress());
      settle_oldest(call.deadline);
    }
    std::scoped_lock lock(launching_);
    expect_sound(call);
    const std::uint64_t number = operations_.add();
    Launched& operation = operations_.slot(number);
    operation.started = false;
    api_->record(operation.ready, options_.producer);
    if (is_point_to_point(call.op)) {
      pending_.push_back({number, call});
      pending_.back().call.name = {};  // the caller's string lives only for this call
    } else {
      flush(call.deadline);
      launch(lanes_.collectives, {{number, call}}, call.deadline);
    }
    return {.op = call.op, .peer = call.peer, .sequence = call.sequence, .cookie = number};
  }

  bool poll(const Ticket& ticket) override {
    std::scoped_lock lock(launching_);
    return look(ticket, CommTime::max());
  }

  bool await(const Ticket& ticket, CommTime deadline) override {
    for (int round = 0;; ++round) {
      {
        std::scoped_lock lock(launching_);
        if (look(ticket, deadline)) return true;
      }
      const CommTime now = CommClock::now();
      if (now >= deadline) return false;
      if (round < kSpins) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_until(std::min(deadline, now + kNap));
      }
    }
  }

  void expire(const Ticket& ticket) override {
    const std::string call = fmt::format("{} #{}", name(ticket.op), ticket.sequence);
    const std::string why = "the deadline has passed on the device";
    abort(fmt::format("{} in {}", why, call));
    fail_call(call, why);
  }

  std::unique_ptr<Comm> make_part(const Call& call) override {
    auto control = control_->split(static_cast<int>(call.color), static_cast<int>(call.key), {.name = call.name});
    NcclHandle handle = nullptr;
    {
      std::scoped_lock lock(launching_);
      expect_sound(call);
      drain(call.deadline);
      const int color = call.color < 0 ? kNcclNoColor : static_cast<int>(call.color);
      settle(api_->split(lanes_.collectives.comm, color, static_cast<int>(call.key), handle), lanes_.collectives.comm,
             call.deadline, "ncclCommSplit");
    }
    if (!control) return nullptr;
    auto part = std::make_unique<NcclComm>(api_, std::move(control), options_);
    part->connect(handle, call.deadline);
    return part;
  }

  std::unique_ptr<Comm> make_side(std::string_view name) override { return control_->split(0, rank(), {.name = name}); }

 private:
  static constexpr int kSpins = 200;
  static constexpr microseconds kNap{50};

  struct Pending {
    std::uint64_t number;
    Call call;
  };

  // Functions below require launching_ to be held.

  void connect_messages(CommTime deadline) {
    if (size() == 1) return;  // a rank alone sends to none
    settle(api_->split(lanes_.collectives.comm, 0, rank(), lanes_.messages.comm), lanes_.collectives.comm, deadline,
           "ncclCommSplit");
    await_state(lanes_.messages.comm, deadline, "ncclCommSplit");
  }

  void expect_sound(const Call& call) {
    if (!broken_.empty()) fail_call(describe(fingerprint_of(call, rank(), epoch())), broken_);
  }

  void expect(NcclResult result, NcclHandle comm, std::string_view what) {
    if (result == NcclResult::success || result == NcclResult::in_progress) return;
    fail_over(fmt::format("expected {} to succeed, got {}", what, api_->error_text(result, comm)));
  }

  // Non-blocking communicators return early; no event may be recorded behind a launch until it has completed.
  void settle(NcclResult result, NcclHandle comm, CommTime deadline, std::string_view what) {
    expect(result, comm, what);
    if (result == NcclResult::in_progress) await_state(comm, deadline, what);
  }

  void await_state(NcclHandle comm, CommTime deadline, std::string_view what) {
    const RankProgress::Waiting waiting(rank_progress());
    while (in_progress(comm, what)) nap(deadline, what);
  }

  // A round of a wait with launching_ held, which abort() would otherwise wait for.
  void nap(CommTime deadline, std::string_view what) {
    if (aborted_) fail_over(announced());
    if (CommClock::now() >= deadline) fail_over(fmt::format("{} had not ended by the deadline", what));
    std::this_thread::sleep_for(kNap);
  }

  void announce(std::string_view reason) {
    {
      std::scoped_lock lock(announcing_);
      if (reason_.empty()) reason_ = abort_text(reason);
    }
    aborted_ = true;
  }

  std::string announced() {
    std::scoped_lock lock(announcing_);
    return reason_;
  }

  bool in_progress(NcclHandle comm, std::string_view what) {
    NcclResult state = NcclResult::success;
    expect(api_->async_error(comm, state), comm, "ncclCommGetAsyncError");
    expect(state, comm, what);
    return state == NcclResult::in_progress;
  }

  // A communicator must have no outstanding operations when it is split.
  void drain(CommTime deadline) {
    constexpr std::string_view kWhat = "an operation before the split";
    const RankProgress::Waiting waiting(rank_progress());
    api_->record(drained_, lanes_.collectives.stream);
    while (!api_->passed(drained_)) {
      (void)in_progress(lanes_.collectives.comm, kWhat);
      nap(deadline, kWhat);
    }
  }

  [[noreturn]] void fail_over(const std::string& why) {
    control_->abort(why);
    break_locked(why);
    fail_call("nccl", why);
  }

  void break_with(const std::string& why) {
    std::scoped_lock lock(launching_);
    break_locked(why);
  }

  // ncclCommAbort ends the kernels that run, so that no buffer is touched afterwards.
  void break_locked(const std::string& why) {
    if (!broken_.empty()) return;
    broken_ = why;
    pending_.clear();
    for (Lane* lane : {&lanes_.messages, &lanes_.collectives}) {
      if (lane->comm) (void)api_->abort(std::exchange(lane->comm, nullptr));
    }
  }

  void end(Lane& lane) {
    if (!lane.comm) return;
    if (broken_.empty()) {
      const NcclResult result = api_->finalize(lane.comm);
      if (result == NcclResult::success || (result == NcclResult::in_progress && finalized(lane.comm))) {
        (void)api_->destroy(std::exchange(lane.comm, nullptr));
        return;
      }
    }
    (void)api_->abort(std::exchange(lane.comm, nullptr));
  }

  // Waits for unfinished operations before destroy, but only a few seconds.
  bool finalized(NcclHandle comm) {
    const CommTime deadline = CommClock::now() + std::chrono::seconds(5);
    NcclResult state = NcclResult::in_progress;
    while (api_->async_error(comm, state) == NcclResult::success && state == NcclResult::in_progress) {
      if (CommClock::now() >= deadline) return false;
      std::this_thread::sleep_for(kNap);
    }
    return state == NcclResult::success;
  }

  // True if the operation has ended.
  bool look(const Ticket& ticket, CommTime deadline) {
    flush(deadline);
    Launched operation;
    if (!operations_.find(ticket.cookie, [&](const Launched& found) { operation = found; })) return true;
    if (operation.started && api_->passed(operation.done) && broken_.empty()) return true;
    if (!broken_.empty()) fail_call(fmt::format("{} #{}", name(ticket.op), ticket.sequence), broken_);
    for (const Lane* lane : {&lanes_.collectives, &lanes_.messages}) {
      if (lane->comm) (void)in_progress(lane->comm, "an operation");
    }
    return false;
  }

  // Starts the pending messages as one NCCL group, in which their order does not matter.
  void flush(CommTime deadline) {
    if (pending_.empty()) return;
    launch(lanes_.messages, std::exchange(pending_, {}), deadline);
  }

  void launch(const Lane& lane, const std::vector<Pending>& calls, CommTime deadline) {
    for (const Pending& p : calls) api_->stream_wait(lane.stream, operations_.slot(p.number).ready);
    expect(api_->group_start(), lane.comm, "ncclGroupStart");
    for (const Pending& p : calls) {
      Traffic handed;
      const NcclTarget target{rank(), size(), lane.comm, lane.stream, word_};
      expect(submit_nccl(*api_, p.call, target, handed), lane.comm, name(p.call.op));
      log().moved(p.call.op, handed);
    }
    settle(api_->group_end(), lane.comm, deadline, "ncclGroupEnd");
    for (const Pending& p : calls) {
      api_->record(operations_.slot(p.number).done, lane.stream);
      operations_.slot(p.number).started = true;
    }
  }

  void settle_oldest(CommTime deadline) {
    std::uint64_t number = 0;
    if (!operations_.oldest(number)) return;
    const Ticket old{.op = CommOp::barrier, .cookie = number};
    if (!await(old, deadline)) expire(old);
  }

  const std::shared_ptr<const NcclApi> api_;
  const NcclOptions options_;
  std::unique_ptr<Comm> control_;
  std::mutex launching_;
  Lanes lanes_;
  DeviceEvent drained_ = nullptr;
  void* word_ = nullptr;   // device word that barriers reduce
  std::string broken_;     // reason; empty: not broken
  std::mutex announcing_;  // guards reason_
  std::string reason_;     // of an abort that may not have broken the communicator yet
  std::atomic<bool> aborted_{false};
  std::vector<Pending> pending_;
  InFlight<Launched> operations_;
};

}  // namespace

std::unique_ptr<Comm> make_nccl_comm(std::shared_ptr<const NcclApi> api, std::unique_ptr<Comm> control,
                                     const NcclOptions& options) {
  check(api != nullptr && control != nullptr, "[nccl] expected an api and a group of hosts, got null");
  const CommTime deadline = CommClock::now() + options.join_deadline;
  auto comm = std::make_unique<NcclComm>(std::move(api), std::move(control), options);
  comm->connect(deadline);
  return make_checking(std::move(comm));
}

}  // namespace starling::dist
