#include "starling/dist/comm/gpu/ipc_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/call_checks.h"
#include "starling/dist/comm/gpu/peer_memory.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;

// Description of a call that a rank gives the others.
struct Meeting {
  ExportedMemory send{}, recv{};
  ProcessId process{};
  std::uint64_t bytes = 0;  // of a message
};

// Unfinished operation of this rank.
struct Operation {
  enum class Stage : std::uint8_t { meeting, running, leaving };

  std::uint64_t number = 0;
  Call call;
  std::vector<std::int64_t> counts;  // memory of call.counts
  std::string text;                  // the call as the control group names it; equal on all ranks
  Stage stage = Stage::meeting;
  int phase = 0;
  Meeting own;
  std::vector<Meeting> all;  // by rank; of a message: the sender's
  std::byte word{};          // of the answer to a message
  Work control;              // of the stages meeting and leaving
  DeviceReach::Mark mark;    // of the stage running
};

// Phases of a collective, each of which reads what the one before has written on other ranks.
int phases_of(CommOp op) { return op == CommOp::all_reduce ? 2 : 1; }

bool sends_whole_to_root(CommOp op) { return op == CommOp::gather; }

class IpcComm final : public Comm {
 public:
  IpcComm(std::shared_ptr<DeviceReach> reach, std::unique_ptr<Comm> control)
      : Comm(control->group(), std::make_shared<Journal>(control->size())),
        reach_(std::move(reach)),
        meet_(std::move(control)),
        leave_(meet_->split(0, rank(), {.name = "device memory, done"})),
        process_(reach_->process()),
        peers_(reach_) {}

  ~IpcComm() override { reach_->drain(); }

  CommCapabilities capabilities() const override {
    return {.backend = "ipc",
            .direct_memory = true,
            .rank_ordered = true,
            .deterministic = true,
            .survives_loss = true,
            .device_memory = true,
            .checks_calls = meet_->capabilities().checks_calls};
  }

  // Ranks only read each other's memory: once this rank's own work has ended, its buffers are written by nobody.
  void abort(std::string_view reason) override {
    meet_->abort(reason);
    reach_->drain();
  }
  void tell(const RankStatus& status) override { meet_->tell(status); }
  RankStatus heard(int rank) override { return meet_->heard(rank); }

 protected:
  Ticket start(const Call& call) override {
    const std::scoped_lock lock(mutex_);
    auto op = std::make_unique<Operation>();
    op->number = ++started_;
    op->call = call;
    op->counts.assign(call.counts.begin(), call.counts.end());
    op->call.counts = op->counts;
    op->text = text_of(call);
    op->call.name = {};  // the caller's string lives only for this call
    reach_->await_producers();
    tell_own(*op);
    meet(*op);
    const Ticket ticket{.op = call.op, .peer = call.peer, .sequence = call.sequence, .cookie = op->number};
    (is_point_to_point(call.op) ? messages_ : collectives_).push_back(std::move(op));
    return ticket;
  }

  bool poll(const Ticket& ticket) override {
    const std::scoped_lock lock(mutex_);
    advance();
    return find(ticket) == nullptr;
  }

  bool await(const Ticket& ticket, CommTime deadline) override {
    for (int round = 0;; ++round) {
      Work control;
      bool for_good = false, on_device = false;
      {
        const std::scoped_lock lock(mutex_);
        advance();
        const Operation* op = find(ticket);
        if (op == nullptr) return true;
        const Operation& first = first_before(*op);
        control = first.control;
        on_device = first.stage == Operation::Stage::running;
        for_good = deadline >= first.call.deadline;
      }
      if (CommClock::now() >= deadline) return false;
      if (on_device || round < kSpins) {
        std::this_thread::yield();
      } else {
        wait(control, for_good, deadline);
      }
    }
  }

  void expire(const Ticket& ticket) override {
    Work control;
    {
      const std::scoped_lock lock(mutex_);
      const Operation* op = find(ticket);
      if (op != nullptr && first_before(*op).stage != Operation::Stage::running) control = first_before(*op).control;
    }
    wait(control, true, CommClock::now());  // ends with the control group's own error, which names who is missing
    const std::string call = fmt::format("{} #{}", name(ticket.op), ticket.sequence);
    const std::string why = "the deadline has passed";
    abort(fmt::format("{} in {}", why, call));
    fail_call(call, why);
  }

  std::unique_ptr<Comm> make_part(const Call& call) override {
    auto part = meet_->split(static_cast<int>(call.color), static_cast<int>(call.key), {.name = call.name});
    return part ? std::make_unique<IpcComm>(reach_, std::move(part)) : nullptr;
  }

  std::unique_ptr<Comm> make_side(std::string_view name) override { return meet_->split(0, rank(), {.name = name}); }

 private:
  static constexpr int kSpins = 200;
  using Operations = std::deque<std::unique_ptr<Operation>>;

  // Calls that disagree have other texts, which the control group compares.
  static std::string text_of(const Call& call) {
    std::string what;
    if (!is_point_to_point(call.op)) what = name(call.op);
    const bool reduces = call.op == CommOp::all_reduce || call.op == CommOp::reduce_scatter;
    if (reduces) what += fmt::format("({})", name(call.reduce));
    what += fmt::format(" {} x {}", name(call.dtype), call.count);
    for (std::size_t i = 0; i < call.counts.size(); ++i)
      what += fmt::format("{}{}", i == 0 ? " as " : "+", call.counts[i]);
    if (has_root(call.op)) what += fmt::format(" root {}", call.peer);
    if (!call.name.empty()) what += fmt::format(" '{}'", call.name);
    return what;
  }

  std::size_t element(const Operation& op) const { return size_of(op.call.dtype); }

  // Bytes of this rank's buffers that others may read.
  std::size_t readable(const Operation& op, bool send) const {
    const Call& call = op.call;
    const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(elements) * element(op); };
    switch (call.op) {
      case CommOp::all_reduce: return bytes(call.count);
      case CommOp::reduce_scatter:
      case CommOp::all_to_all: return send ? bytes(whole_length(call, size())) : 0;
      case CommOp::all_gather:
      case CommOp::gather: return send ? bytes(piece_length(call, rank())) : 0;
      case CommOp::scatter: return send && rank() == call.peer ? bytes(whole_length(call, size())) : 0;
      case CommOp::broadcast: return send && rank() == call.peer ? bytes(call.count) : 0;
      case CommOp::send: return send ? bytes(call.count) : 0;
      default: return 0;
    }
  }

  void tell_own(Operation& op) {
    op.own.process = process_;
    op.own.bytes = static_cast<std::uint64_t>(op.call.count) * element(op);
    if (readable(op, true) > 0) op.own.send = reach_->export_memory(op.call.send);
    if (readable(op, false) > 0) op.own.recv = reach_->export_memory(op.call.recv);
  }

  CallOptions options(const Operation& op) const {
    const auto left = std::chrono::duration_cast<milliseconds>(op.call.deadline - CommClock::now());
    return {.name = op.text, .deadline = std::max(milliseconds(1), left)};
  }

  void meet(Operation& op) {
    constexpr std::int64_t kBytes = sizeof(Meeting);
    const CallOptions how = options(op);
    op.all.resize(op.call.op == CommOp::recv ? 1 : static_cast<std::size_t>(size()));
    switch (op.call.op) {
      case CommOp::send: op.control = meet_->send(&op.own, kBytes, DType::u8, op.call.peer, how); break;
      case CommOp::recv: op.control = meet_->recv(op.all.data(), kBytes, DType::u8, op.call.peer, how); break;
      default: op.control = meet_->all_gather(&op.own, op.all.data(), kBytes, DType::u8, how); break;
    }
  }

  // Functions below require mutex_ to be held.

  Operations& queue_of(CommOp op) { return is_point_to_point(op) ? messages_ : collectives_; }

  Operation* find(const Ticket& ticket) {
    for (const auto& op : queue_of(ticket.op)) {
      if (op->number == ticket.cookie) return op.get();
    }
    return nullptr;
  }

  static bool same_way(const Operation& a, const Operation& b) {
    return a.call.op == b.call.op && a.call.peer == b.call.peer;
  }

  // The operation that has to move on before this one can.
  const Operation& first_before(const Operation& op) const {
    if (!is_point_to_point(op.call.op)) return *collectives_.front();
    for (const auto& other : messages_) {
      if (same_way(*other, op)) return *other;
    }
    return op;
  }

  // Collectives move on one after the other, so that all ranks leave them in one order; messages of a pair, too.
  void advance() {
    try {
      while (!collectives_.empty() && ended(*collectives_.front())) collectives_.pop_front();
      std::set<std::pair<CommOp, int>> held;
      for (auto op = messages_.begin(); op != messages_.end();) {
        const std::pair way{(*op)->call.op, (*op)->call.peer};
        if (held.contains(way) || !ended(**op)) {
          held.insert(way);
          ++op;
        } else {
          op = messages_.erase(op);
        }
      }
    } catch (...) {
      reach_->drain();
      throw;
    }
  }

  // Moves the operation on as far as it goes; true if it has ended.
  bool ended(Operation& op) {
    for (;;) {
      switch (op.stage) {
        case Operation::Stage::meeting:
          if (!op.control.done()) return false;
          if (op.call.op == CommOp::send) {
            op.control = leave_->recv(&op.word, 1, DType::u8, op.call.peer, options(op));
            op.stage = Operation::Stage::leaving;
          } else {
            run(op);
          }
          break;
        case Operation::Stage::running:
          if (!reach_->passed(op.mark)) return false;
          op.control = op.call.op == CommOp::recv ? leave_->send(&op.word, 1, DType::u8, op.call.peer, options(op))
                                                  : leave_->barrier(options(op));
          op.stage = Operation::Stage::leaving;
          break;
        case Operation::Stage::leaving:
          if (!op.control.done()) return false;
          if (is_point_to_point(op.call.op) || ++op.phase == phases_of(op.call.op)) return true;
          run(op);
          break;
      }
    }
  }

  void run(Operation& op) {
    if (op.call.op == CommOp::recv) {
      receive(op);
    } else {
      collect(op);
    }
    op.mark = reach_->mark();
    op.stage = Operation::Stage::running;
  }

  std::byte* at(const Operation& op, int peer, bool send) {
    const Meeting& theirs = op.all[op.call.op == CommOp::recv ? 0 : static_cast<std::size_t>(peer)];
    if (peer == rank()) return own(op, send);
    const ExportedMemory& memory = send ? theirs.send : theirs.recv;
    if (theirs.process == process_) return reinterpret_cast<std::byte*>(memory.address);
    return peers_.address(peer, memory);
  }
  static std::byte* own(const Operation& op, bool send) {
    // Buffers to send are read alone.
    return static_cast<std::byte*>(send ? const_cast<void*>(op.call.send) : op.call.recv);  // NOLINT
  }

  void receive(Operation& op) {
    const std::uint64_t sent = op.all[0].bytes;
    check(sent == op.own.bytes, "[ipc] expected a message of {} bytes from rank {}, got one of {}", op.own.bytes,
          op.call.peer, sent);
    if (sent == 0) return;
    reach_->copy(op.call.recv, at(op, op.call.peer, true), sent);
    log().moved(CommOp::recv, {.bytes_received = sent, .steps = 1});
  }

  void copy(Operation& op, std::int64_t to, int peer, bool send, std::int64_t from, std::int64_t count) {
    if (count == 0) return;
    const auto size = static_cast<std::int64_t>(element(op));
    std::byte* source = at(op, peer, send) + from * size;
    std::byte* target = own(op, false) + to * size;
    if (source == target) return;
    reach_->copy(target, source, static_cast<std::size_t>(count * size));
    if (peer != rank()) read_ += static_cast<std::uint64_t>(count * size);
  }

  void reduce(Operation& op, std::int64_t from, std::int64_t to, std::int64_t count) {
    if (count == 0) return;
    const auto size = static_cast<std::int64_t>(element(op));
    std::vector<const void*> sources;
    for (int peer = 0; peer < this->size(); ++peer) sources.push_back(at(op, peer, true) + from * size);
    reach_->reduce(op.call.dtype, op.call.reduce, sources, own(op, false) + to * size, count);
    read_ += static_cast<std::uint64_t>((this->size() - 1) * count * size);
  }

  // Enqueues the reads of this rank in this phase of a collective.
  void collect(Operation& op) {
    const Call& call = op.call;
    const bool at_root = rank() == call.peer;
    read_ = 0;
    switch (call.op) {
      case CommOp::all_reduce: {
        if (op.phase == 0) {
          const Piece mine = piece_of(call.count, rank(), size());
          reduce(op, mine.begin, mine.begin, mine.size);
          break;
        }
        for (int peer = 0; peer < size(); ++peer) {
          const Piece theirs = piece_of(call.count, peer, size());
          if (peer != rank()) copy(op, theirs.begin, peer, false, theirs.begin, theirs.size);
        }
        break;
      }
      case CommOp::reduce_scatter: reduce(op, piece_offset(call, rank()), 0, piece_length(call, rank())); break;
      case CommOp::all_gather:
      case CommOp::gather:
        for (int peer = 0; peer < size() && (!sends_whole_to_root(call.op) || at_root); ++peer)
          copy(op, piece_offset(call, peer), peer, true, 0, piece_length(call, peer));
        break;
      case CommOp::all_to_all:
        for (int peer = 0; peer < size(); ++peer)
          copy(op, peer * call.count, peer, true, rank() * call.count, call.count);
        break;
      case CommOp::broadcast: copy(op, 0, call.peer, true, 0, at_root ? 0 : call.count); break;
      case CommOp::scatter: copy(op, 0, call.peer, true, piece_offset(call, rank()), piece_length(call, rank())); break;
      default: break;
    }
    if (read_ > 0) log().moved(call.op, {.bytes_received = read_, .steps = 1});
    count_given(op);
  }

  // Bytes that the others read of this rank's memory in this phase.
  void count_given(const Operation& op) {
    const Call& call = op.call;
    std::int64_t given = 0;
    const std::int64_t others = size() - 1;
    switch (call.op) {
      case CommOp::all_reduce: {
        const std::int64_t mine = piece_of(call.count, rank(), size()).size;
        given = op.phase == 0 ? call.count - mine : mine * others;
        break;
      }
      case CommOp::reduce_scatter: given = whole_length(call, size()) - piece_length(call, rank()); break;
      case CommOp::all_gather: given = piece_length(call, rank()) * others; break;
      case CommOp::all_to_all: given = call.count * others; break;
      case CommOp::gather: given = rank() == call.peer ? 0 : piece_length(call, rank()); break;
      case CommOp::broadcast: given = rank() == call.peer ? call.count * others : 0; break;
      case CommOp::scatter:
        given = rank() == call.peer ? whole_length(call, size()) - piece_length(call, rank()) : 0;
        break;
      default: break;
    }
    if (given > 0 && others > 0)
      log().moved(call.op, {.bytes_sent = static_cast<std::uint64_t>(given) * element(op), .messages = 1});
  }

  // Without the mutex: another thread may move on meanwhile. A wait for good ends with the control group's own error,
  // which names those who are missing.
  void wait(const Work& control, bool for_good, CommTime deadline) {
    try {
      if (for_good)
        control.wait_until(deadline);
      else
        (void)control.wait_for(std::min(milliseconds(5), std::chrono::ceil<milliseconds>(deadline - CommClock::now())));
    } catch (...) {
      reach_->drain();
      throw;
    }
  }

  const std::shared_ptr<DeviceReach> reach_;
  const std::unique_ptr<Comm> meet_, leave_;  // where ranks tell of their buffers, and that they have read the others'
  const ProcessId process_;
  PeerMemory peers_;
  std::mutex mutex_;
  Operations collectives_, messages_;  // unfinished, oldest first
  std::uint64_t started_ = 0;
  std::uint64_t read_ = 0;  // bytes of others that the phase at hand reads
};

}  // namespace

std::unique_ptr<Comm> make_ipc_comm(std::shared_ptr<DeviceReach> reach, std::unique_ptr<Comm> control) {
  check(reach != nullptr && control != nullptr, "[ipc] expected a device and a group of hosts, got null");
  check(control->size() <= static_cast<int>(DeviceReach::kMostSources), "[ipc] expected at most {} ranks, got {}",
        DeviceReach::kMostSources, control->size());
  return std::make_unique<IpcComm>(std::move(reach), std::move(control));
}

}  // namespace starling::dist
