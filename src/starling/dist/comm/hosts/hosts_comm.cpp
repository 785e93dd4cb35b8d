#include "starling/dist/comm/hosts/hosts_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <numeric>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/hosts/stages.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;

// Calls of one inner communicator, or of one of its message rings, in the order of the operations. A call is made only
// while few enough are under way that it cannot block: a rank that blocks inside one communicator makes no progress in
// the others, and ranks that wait for it there may be those it waits for.
class CallQueue {
 public:
  explicit CallQueue(std::uint64_t window) : window_(window) {}

  void add(std::uint64_t operation) { waiting_.push_back(operation); }
  bool may_start(std::uint64_t operation) const {
    return waiting_.front() == operation && (under_way_.empty() || started_ - under_way_.front() < window_);
  }
  // Number of the call, for `end`.
  std::uint64_t start() {
    waiting_.pop_front();
    under_way_.push_back(started_);
    return started_++;
  }
  void end(std::uint64_t call) { std::erase(under_way_, call); }

 private:
  std::uint64_t window_;
  std::deque<std::uint64_t> waiting_;    // operations still to call here
  std::deque<std::uint64_t> under_way_;  // calls not ended, oldest first
  std::uint64_t started_ = 0;
};

// Half of what Comm promises to take: a slot is free for reuse once every rank, not only this one, has finished the
// call that had it; all have when this rank has finished a call a window later.
constexpr std::uint64_t kUnderWay = 32;

constexpr milliseconds kMeeting{60'000};  // for ranks to come to the making of the groups

// Outstanding operation of this rank. The first `next` stages have been started.
struct Operation {
  CommOp op = CommOp::barrier;
  int peer = -1;
  std::string call;
  Staged staged;
  std::size_t next = 0;
  std::uint64_t number = 0;  // of the last stage started, in its queue
  Work work;                 // last stage started
  bool ended = false;

  bool running() const { return !ended && next > 0; }
};

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

class HostsComm final : public Comm {
 public:
  HostsComm(HostsLines lines, HostMap hosts)
      : Comm(lines.world->group(), std::make_shared<Journal>(lines.world->size())),
        hosts_(std::move(hosts)),
        lines_(std::move(lines)),
        name_(fmt::format("{}+{}", lines_.local->capabilities().backend, lines_.world->capabilities().backend)),
        queues_(HostsLines::direct, CallQueue(kUnderWay)) {
    queues_.resize(queues_.size() + 2 * static_cast<std::size_t>(size()), CallQueue(kUnderWay));
  }

  CommCapabilities capabilities() const override {
    const CommCapabilities near = lines_.local->capabilities(), far = lines_.world->capabilities();
    return {.backend = name_,
            .deterministic = near.deterministic && far.deterministic,
            .survives_loss = near.survives_loss && far.survives_loss};
  }
  std::shared_ptr<Allocator> arena() const override { return lines_.local->arena(); }

  void abort(std::string_view reason) override { break_with(abort_text(reason)); }
  void tell(const RankStatus& status) override { lines_.world->tell(status); }
  RankStatus heard(int rank) override { return lines_.world->heard(rank); }

 protected:
  Ticket start(const Call& call) override {
    const std::scoped_lock lock(mutex_);
    const std::string what = describe(fingerprint_of(call, rank(), epoch()));
    if (!reason_.empty()) fail_call(what, reason_);
    Operation& op = operations_.emplace_back();
    op.op = call.op;
    op.peer = call.peer;
    op.call = what;
    op.staged = stages_of(call, lines_, hosts_, size());
    const std::uint64_t number = first_ + operations_.size() - 1;
    for (const Stage& stage : op.staged.stages) queue_of(op, stage).add(number);
    move_on();
    return {.op = call.op, .peer = call.peer, .sequence = call.sequence, .cookie = number};
  }

  bool poll(const Ticket& ticket) override {
    const std::scoped_lock lock(mutex_);
    if (ended(ticket)) return true;
    move_on();
    return ended(ticket);
  }

  bool await(const Ticket& ticket, CommTime deadline) override {
    for (;;) {
      Work under_way;
      milliseconds longest{20};
      {
        const std::scoped_lock lock(mutex_);
        if (ended(ticket)) return true;
        move_on();
        if (ended(ticket)) return true;
        if (operations_.size() > 1) longest = milliseconds(1);  // other operations need progress, too
        under_way = first_work();
      }
      const CommTime now = CommClock::now();
      if (now >= deadline) return false;
      const auto left = std::chrono::ceil<milliseconds>(deadline - now);
      wait_for(under_way, std::min(left, longest));
    }
  }

  void expire(const Ticket& ticket) override {
    std::string call = fmt::format("{} #{}", name(ticket.op), ticket.sequence), blame = "it could not begin";
    Work work;
    {
      const std::scoped_lock lock(mutex_);
      if (ended(ticket)) return;
      const Operation& op = operation(ticket);
      call = op.call;
      if (op.running()) work = op.work;
    }
    try {
      work.wait_until(CommClock::now());
    } catch (const Error& error) {
      blame = first_line(error.what());
    }
    break_with(
        fmt::format("rank {} in {} of group '{}': the deadline has passed; {}", rank(), call, group().label, blame));
    fail_call(call, reason());
  }

  // Outstanding operations are finished first: other ranks may need this rank for them before they call split.
  std::unique_ptr<Comm> make_part(const Call& call) override {
    settle(call.deadline);
    const CallOptions options{.name = call.name, .deadline = remaining(call.deadline)};
    try {
      const std::int64_t own[2] = {call.color, call.key};
      std::vector<std::int64_t> all(static_cast<std::size_t>(size()) * 2);
      lines_.world->all_gather(own, all.data(), 2, DType::i64, options).wait();
      const int color = static_cast<int>(call.color), key = static_cast<int>(call.key);
      auto local = lines_.local->split(color, key, options);
      auto world = lines_.world->split(color, key, options);
      if (!world) return nullptr;
      return make_hosts_comm(std::move(local), std::move(world), hosts_of_part(all, call.color));
    } catch (const Error& error) {
      break_with(first_line(error.what()));
      throw;
    }
  }

 private:
  static milliseconds remaining(CommTime deadline) {
    return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(deadline - CommClock::now()));
  }

  bool ended(const Ticket& ticket) const { return ticket.cookie < first_ || operation(ticket).ended; }
  const Operation& operation(const Ticket& ticket) const {
    return operations_[static_cast<std::size_t>(ticket.cookie - first_)];
  }

  Work first_work() const {
    for (const Operation& op : operations_) {
      if (op.running()) return op.work;
    }
    return {};
  }

  // Advances all operations: starts stages that may start and ends operations that have ended. Failures break
  // everything.
  void move_on() {
    if (!reason_.empty()) fail_call("a collective", reason_);
    std::string call;
    try {
      for (std::size_t i = 0; i < operations_.size(); ++i) {
        call = operations_[i].call;
        advance(operations_[i], first_ + i);
      }
    } catch (const Error& error) {
      const std::string why = first_line(error.what());
      break_locked(why);
      fail_call(call, why);
    }
    while (!operations_.empty() && operations_.front().ended) {
      operations_.pop_front();
      ++first_;
    }
  }

  CallQueue& queue_of(const Operation& op, const Stage& stage) {
    if (stage.line != HostsLines::direct) return queues_[stage.line];
    return queues_[HostsLines::direct + 2 * static_cast<std::size_t>(op.peer) + (op.op == CommOp::send ? 1 : 0)];
  }

  void advance(Operation& op, std::uint64_t number) {
    const auto& stages = op.staged.stages;
    while (!op.ended) {
      if (op.running()) {
        if (!op.work.done()) return;
        queue_of(op, stages[op.next - 1]).end(op.number);
      }
      if (op.next == stages.size()) {
        if (op.staged.finish) op.staged.finish();
        op.ended = true;
        op.staged = {};
        account(op.op);
        return;
      }
      const Stage& stage = stages[op.next];
      CallQueue& queue = queue_of(op, stage);
      if (!queue.may_start(number)) return;
      op.number = queue.start();
      op.work = stage.start();
      ++op.next;
    }
  }

  // Waiting progresses one of the inner communicators; the next move_on notices a failure.
  static void wait_for(const Work& work, milliseconds time) {
    try {
      (void)work.wait_for(time);
    } catch (const Error&) {
    }
  }

  void settle(CommTime deadline) {
    for (;;) {
      Work work;
      {
        const std::scoped_lock lock(mutex_);
        move_on();
        if (operations_.empty()) return;
        work = first_work();
      }
      if (CommClock::now() >= deadline) {
        break_with(fmt::format("rank {} of group '{}': the deadline has passed before a split", rank(), group().label));
      }
      wait_for(work, milliseconds(1));
    }
  }

  // Hosts of the ranks of this color, ordered by key, then by rank, renumbered in that order.
  std::vector<int> hosts_of_part(const std::vector<std::int64_t>& colors_and_keys, std::int64_t color) const {
    const auto at = [&](int r, std::size_t i) { return colors_and_keys[static_cast<std::size_t>(r) * 2 + i]; };
    std::vector<int> ranks(static_cast<std::size_t>(size())), hosts, numbers;
    std::iota(ranks.begin(), ranks.end(), 0);
    std::erase_if(ranks, [&](int r) { return at(r, 0) != color; });
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return at(a, 1) < at(b, 1); });
    for (int r : ranks) {
      auto found = std::find(hosts.begin(), hosts.end(), hosts_.host_of(r));
      if (found == hosts.end()) found = hosts.insert(found, hosts_.host_of(r));
      numbers.push_back(static_cast<int>(found - hosts.begin()));
    }
    return numbers;
  }

  void break_with(const std::string& why) {
    const std::scoped_lock lock(mutex_);
    break_locked(why);
  }

  // Both are aborted: ranks of this host learn of the failure from `local`, those of other hosts from `world`.
  void break_locked(const std::string& why) {
    if (!reason_.empty()) return;
    reason_ = why;
    lines_.local->abort(why);
    lines_.world->abort(why);
  }

  std::string reason() {
    const std::scoped_lock lock(mutex_);
    return reason_;
  }

  // Attributes the inner communicators' traffic since the last call to this operation.
  void account(CommOp op) {
    Traffic now;
    for (const Comm* comm :
         {lines_.local.get(), lines_.world.get(), lines_.before.get(), lines_.after.get(), lines_.cross.get()}) {
      if (comm == nullptr) continue;
      const OpCounters total = comm->journal().total();
      now.bytes_sent += total.bytes_sent;
      now.bytes_received += total.bytes_received;
      now.steps += total.steps;
      now.messages += total.messages;
    }
    log().moved(op, {.bytes_sent = now.bytes_sent - counted_.bytes_sent,
                     .bytes_received = now.bytes_received - counted_.bytes_received,
                     .steps = now.steps - counted_.steps,
                     .messages = now.messages - counted_.messages});
    counted_ = now;
  }

  HostMap hosts_;
  HostsLines lines_;
  const std::string name_;
  std::mutex mutex_;
  std::deque<Operation> operations_;  // not ended, or behind one that has not
  std::uint64_t first_ = 0;           // number of operations_.front()
  std::vector<CallQueue> queues_;     // by line; then by peer: receives, sends
  std::string reason_;                // non-empty: broken
  Traffic counted_;
};

}  // namespace

std::unique_ptr<Comm> make_hosts_comm(std::unique_ptr<Comm> local, std::unique_ptr<Comm> world,
                                      std::vector<int> host_of) {
  check(local && world, "[hosts] expected communicators of the host and of the world, got null");
  check(host_of.size() == static_cast<std::size_t>(world->size()), "[hosts] expected the hosts of {} ranks, got {}",
        world->size(), host_of.size());
  HostMap hosts(std::move(host_of), world->rank());
  check(local->size() == hosts.local_world() && local->rank() == hosts.local_rank(),
        "[hosts] expected this rank to be {} of {} on its host, got {} of {}", hosts.local_rank(), hosts.local_world(),
        local->rank(), local->size());
  HostsLines lines{.local = std::move(local), .world = std::move(world), .before = {}, .after = {}, .cross = {}};
  lines.before = lines.local->split(0, lines.local->rank(), {.name = "before the crossing", .deadline = kMeeting});
  lines.after = lines.local->split(0, lines.local->rank(), {.name = "after the crossing", .deadline = kMeeting});
  const bool crosses = hosts.even() || hosts.leads();
  const int color = hosts.even() ? hosts.local_rank() : 0;
  lines.cross = lines.world->split(crosses ? color : -1, hosts.host(), {.name = "the crossing", .deadline = kMeeting});
  return std::make_unique<HostsComm>(std::move(lines), std::move(hosts));
}

}  // namespace starling::dist
