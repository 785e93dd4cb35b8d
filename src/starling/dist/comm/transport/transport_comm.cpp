#include "starling/dist/comm/transport/transport_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <set>

#include "starling/base/error.h"
#include "starling/dist/comm/transport/hello.h"
#include "starling/dist/comm/transport/plans.h"
#include "starling/dist/comm/transport/progress_engine.h"

namespace starling::dist {
namespace {

constexpr std::uint64_t kMessageSlots = 8;

// Longest wait during which messages that wait for their turn are not looked after.
constexpr std::chrono::milliseconds kTurn{1};

// An operation that this rank has started.
struct Started {
  Call call;
  Fingerprint print;
  SchedulePlans::Plan plan;
};

// Outstanding messages of one direction with one peer: those under way, and those started while all slots were taken.
struct MessageLine {
  using Slots = std::array<Operation, kMessageSlots>;
  std::unique_ptr<Slots> slots;
  std::deque<Started> waiting;  // calls without their name, which lives only as long as the call
};

class TransportComm final : public Comm {
 public:
  TransportComm(const CommGroup& group, std::shared_ptr<ProgressEngine> engine, std::vector<int> ranks,
                std::uint32_t id, ChoiceRules rules)
      : Comm(group, std::make_shared<Journal>(group.size)),
        engine_(std::move(engine)),
        ranks_(std::move(ranks)),
        id_(id),
        plans_(group.rank, group.size, std::move(rules)),
        messages_(2 * static_cast<std::size_t>(group.size)) {
    engine_->join(id_, progress_);
    engine_->open_status_channel(id_, ranks_, rank());
    engine_->add_starter(this, [this] { return start_waiting(); });
  }

  ~TransportComm() override {
    leave_unfinished();
    engine_->remove_starter(this);
    engine_->leave(id_);
    std::vector<const Operation*> own;
    for (const Operation& operation : collectives_) own.push_back(&operation);
    for (const MessageLine& line : messages_)
      for (std::uint64_t i = 0; line.slots && i < kMessageSlots; ++i) own.push_back(&(*line.slots)[i]);
    engine_->forget(own);
  }

  CommCapabilities capabilities() const override {
    return {.backend = engine_->transport().name(),
            .rank_ordered = reduces_in_rank_order(),
            .deterministic = true,
            .survives_loss = engine_->transport().survives_loss()};
  }

  void abort(std::string_view reason) override { engine_->break_with(abort_text(reason)); }

  void tell(const RankStatus& status) override { engine_->send_status(id_, status); }
  RankStatus heard(int rank) override { return engine_->status_of(id_, rank); }

  std::string explain(const Call& call) const {
    const ScheduleRequest request = plans_.request_of(call);
    return describe(choose(request, plans_.rules(), call.dtype, call.reduce), request);
  }

 protected:
  Ticket start(const Call& call) override {
    const Fingerprint print = fingerprint_of(call, rank(), epoch());
    if (engine_->broken()) fail_call(describe(print), engine_->reason());
    if (is_point_to_point(call.op)) {
      start_message({call, print, plans_.of(call)});
    } else {
      vacate(call);
      progress_.started.store(call.sequence);
      begin(slot(call.op, call.peer, call.sequence), {call, print, plans_.of(call)});
    }
    return {.op = call.op, .peer = call.peer, .sequence = call.sequence};
  }

  bool poll(const Ticket& ticket) override {
    engine_->start_waiting();
    if (begun(ticket) && engine_->poll(slot(ticket), ticket.sequence)) return ended(ticket);
    return engine_->broken() && await(ticket, CommClock::now());
  }

  bool await(const Ticket& ticket, CommTime deadline) override {
    for (;;) {
      const bool more = engine_->start_waiting();
      const Ticket now = begun(ticket) ? ticket : before_waiting(ticket);
      const CommTime until = more ? std::min(deadline, CommClock::now() + kTurn) : deadline;
      const ProgressEngine::Outcome outcome = engine_->await(slot(now), now.sequence, until);
      if (outcome == ProgressEngine::Outcome::broken) fail_call(describe_call(ticket), engine_->reason());
      if (outcome == ProgressEngine::Outcome::ended && now.sequence == ticket.sequence) return ended(ticket);
      if (CommClock::now() >= deadline) return false;
    }
  }

  void expire(const Ticket& ticket) override {
    const std::string call = describe_call(ticket);
    const std::string who = is_point_to_point(ticket.op) ? fmt::format("rank {}", ticket.peer) : missing(ticket);
    engine_->break_with(fmt::format("rank {} in {} of group '{}': the deadline has passed; {}; {}", rank(), call,
                                    group().label, who.empty() ? "all ranks had arrived" : "not arrived: " + who,
                                    engine_->status(slot(ticket))));
    engine_->drain();
    fail_call(call, engine_->reason());
  }

  // All-gathers color, key and next free group number of every rank.
  std::unique_ptr<Comm> make_part(const Call& call) override {
    const std::int64_t own[3] = {call.color, call.key, static_cast<std::int64_t>(engine_->next_group().load())};
    std::vector<std::int64_t> all(3 * static_cast<std::size_t>(size()));
    Call exchange = call;
    exchange.count = 3;
    exchange.send = own;
    exchange.recv = all.data();
    const Ticket ticket = start(exchange);
    if (!await(ticket, call.deadline)) expire(ticket);
    return part_of(call, all);
  }

 private:
  Operation& slot(CommOp op, int peer, std::uint64_t sequence) {
    if (!is_point_to_point(op)) return collectives_[sequence % kCollectiveSlots];
    const std::scoped_lock lock(lines_);
    return slot(line(op, peer), sequence);
  }
  Operation& slot(const Ticket& ticket) { return slot(ticket.op, ticket.peer, ticket.sequence); }

  void begin(Operation& operation, const Started& started) {
    operation.begin(started.call, started.print, started.plan, {&ranks_, channel(started.call), &log()});
    engine_->submit(operation);
  }

  // Functions below, up to the next comment, require lines_.
  MessageLine& line(CommOp op, int peer) {
    return messages_[2 * static_cast<std::size_t>(peer) + (op == CommOp::send ? 1 : 0)];
  }
  static Operation& slot(MessageLine& line, std::uint64_t sequence) {
    if (!line.slots) line.slots = std::make_unique<MessageLine::Slots>();
    return (*line.slots)[sequence % kMessageSlots];
  }
  static bool has_slot(MessageLine& line, std::uint64_t sequence) {
    return sequence <= kMessageSlots || slot(line, sequence).ended(sequence - kMessageSlots);
  }

  // A message takes the slot of an earlier one that has ended, or waits for it, but not in here.
  void start_message(const Started& started) {
    const Call& call = started.call;
    const std::scoped_lock lock(lines_);
    MessageLine& own = line(call.op, call.peer);
    if (own.waiting.empty() && has_slot(own, call.sequence)) return begin(slot(own, call.sequence), started);
    own.waiting.push_back(started);
    own.waiting.back().call.name = {};
    ++waiting_;
  }

  // Starts messages whose turn has come. True if others still wait for theirs.
  bool start_waiting() {
    if (waiting_.load() == 0) return false;
    const std::scoped_lock lock(lines_);
    for (MessageLine& own : messages_) {
      while (!own.waiting.empty() && has_slot(own, own.waiting.front().call.sequence)) {
        begin(slot(own, own.waiting.front().call.sequence), own.waiting.front());
        own.waiting.pop_front();
        --waiting_;
      }
    }
    return waiting_.load() > 0;
  }

  bool begun(const Ticket& ticket) {
    if (!is_point_to_point(ticket.op) || waiting_.load() == 0) return true;
    const std::scoped_lock lock(lines_);
    const MessageLine& own = line(ticket.op, ticket.peer);
    return own.waiting.empty() || ticket.sequence < own.waiting.front().call.sequence;
  }

  // The message whose slot the first one that waits for its turn will take.
  Ticket before_waiting(const Ticket& ticket) {
    const std::scoped_lock lock(lines_);
    const MessageLine& own = line(ticket.op, ticket.peer);
    const std::uint64_t next = own.waiting.empty() ? ticket.sequence : own.waiting.front().call.sequence;
    return {.op = ticket.op, .peer = ticket.peer, .sequence = next - kMessageSlots};
  }

  std::uint32_t channel(const Call& call) const {
    const std::uint32_t base = id_ * kChannelsPerGroup;
    if (is_point_to_point(call.op)) return base + kMessageChannel;
    return base + static_cast<std::uint32_t>(call.sequence % kCollectiveSlots);
  }

  // Waits for the earlier collective in this call's slot.
  void vacate(const Call& call) {
    if (call.sequence <= kCollectiveSlots) return;
    const Ticket before{.op = call.op, .peer = call.peer, .sequence = call.sequence - kCollectiveSlots};
    const RankProgress::Waiting waiting(rank_progress());
    if (!await(before, call.deadline)) expire(before);
  }

  bool ended(const Ticket& ticket) {
    if (is_point_to_point(ticket.op)) return true;
    std::uint64_t last = progress_.finished.load();
    while (last < ticket.sequence && !progress_.finished.compare_exchange_weak(last, ticket.sequence)) {
    }
    return true;
  }

  std::string describe_call(const Ticket& ticket) {
    engine_->drain();
    const Fingerprint& print = slot(ticket).print();
    if (print.sequence == ticket.sequence) return describe(print);
    return fmt::format("{} #{}", name(ticket.op), ticket.sequence);
  }

  std::string missing(const Ticket& ticket) {
    return fmt::format("{}", fmt::join(engine_->missing(id_, ranks_, ticket.sequence), ", "));
  }

  void leave_unfinished() {
    const auto unfinished = [&](CommOp op, int peer) {
      const Ticket last{.op = op, .peer = peer, .sequence = journal().last_sequence(op, peer)};
      if (last.sequence == 0 || engine_->broken() || slot(last).ended(last.sequence)) return;
      if (engine_->poll(slot(last), last.sequence)) return;
      engine_->break_with(
          fmt::format("rank {} left group '{}' without waiting for {}", rank(), group().label, describe_call(last)));
    };
    unfinished(CommOp::barrier, -1);
    for (int peer = 0; peer < size(); ++peer) {
      unfinished(CommOp::send, peer);
      unfinished(CommOp::recv, peer);
    }
  }

  bool reduces_in_rank_order() const {
    const ChoiceRules& rules = plans_.rules();
    const auto ordered = [&](CommOp op) {
      const auto forced = rules.forced.find(op);
      return forced == rules.forced.end() ? rules.rank_ordered : algorithm_named(forced->second, op).rank_ordered;
    };
    return ordered(CommOp::all_reduce) && ordered(CommOp::reduce_scatter);
  }

  std::unique_ptr<Comm> part_of(const Call& call, const std::vector<std::int64_t>& all) {
    const auto color = [&](int r) { return all[3 * static_cast<std::size_t>(r)]; };
    const auto key = [&](int r) { return all[3 * static_cast<std::size_t>(r) + 1]; };
    std::set<std::int64_t> colors;
    std::int64_t first = 0;
    std::vector<int> members;
    for (int r = 0; r < size(); ++r) {
      first = std::max(first, all[3 * static_cast<std::size_t>(r) + 2]);
      if (color(r) >= 0) colors.insert(color(r));
      if (color(r) == call.color) members.push_back(r);
    }
    engine_->next_group().store(static_cast<std::uint32_t>(first + static_cast<std::int64_t>(colors.size())));
    if (call.color < 0) return nullptr;
    std::stable_sort(members.begin(), members.end(), [&](int a, int b) { return key(a) < key(b); });
    CommGroup inner = group();
    inner.rank = static_cast<int>(std::find(members.begin(), members.end(), rank()) - members.begin());
    inner.size = static_cast<int>(members.size());
    inner.label = fmt::format("{}/{}.{}", group().label, call.sequence, call.color);
    ChoiceRules rules = plans_.rules();
    rules.hosts.clear();
    std::vector<int> ranks;
    for (int member : members) {
      ranks.push_back(ranks_[static_cast<std::size_t>(member)]);
      if (!plans_.rules().hosts.empty()) rules.hosts.push_back(plans_.rules().hosts[static_cast<std::size_t>(member)]);
    }
    const auto id = static_cast<std::uint32_t>(first + std::distance(colors.begin(), colors.find(call.color)));
    return std::make_unique<TransportComm>(inner, engine_, std::move(ranks), id, std::move(rules));
  }

  std::shared_ptr<ProgressEngine> engine_;
  const std::vector<int> ranks_;  // transport ranks of the group
  const std::uint32_t id_;
  SchedulePlans plans_;
  GroupProgress progress_;
  std::array<Operation, kCollectiveSlots> collectives_;
  std::mutex lines_;
  std::vector<MessageLine> messages_;  // by peer: received, sent
  std::atomic<int> waiting_{0};        // messages that wait for their turn
};

}  // namespace

std::unique_ptr<Comm> make_transport_comm(std::shared_ptr<Transport> transport, CommGroup group,
                                          const TransportCommOptions& options) {
  check(transport != nullptr, "[comm] expected a transport, got null");
  check(group.rank == transport->rank() && group.size == transport->size(),
        "[comm] expected rank {} of {} as the transport has it, got rank {} of {}", transport->rank(),
        transport->size(), group.rank, group.size);
  std::vector<int> ranks;
  for (int r = 0; r < group.size; ++r) ranks.push_back(r);
  try {
    ChoiceRules rules = agree_on_rules(*transport, group, options);
    auto engine = std::make_shared<ProgressEngine>(std::move(transport));
    return std::make_unique<TransportComm>(group, std::move(engine), std::move(ranks), kWorldGroup, std::move(rules));
  } catch (const std::exception& error) {
    if (transport) transport->abort(error.what());
    throw;
  }
}

std::unique_ptr<Comm> make_transport_comm(std::shared_ptr<Transport> transport, CommGroup group) {
  return make_transport_comm(std::move(transport), std::move(group), {});
}

TransportCommOptions reducing_by(const std::string& algorithm) {
  TransportCommOptions options;
  if (algorithm.empty()) return options;
  options.forced[CommOp::all_reduce] = algorithm_named(algorithm, CommOp::all_reduce).name;
  options.chain = algorithm == "linear";
  return options;
}

std::string explain(Comm& comm, CommOp op, std::int64_t count, DType dtype, ReduceOp reduce) {
  const auto* over_transport = dynamic_cast<const TransportComm*>(&comm);
  if (over_transport == nullptr) return {};
  return over_transport->explain(
      {.op = op, .dtype = dtype, .reduce = reduce, .peer = has_root(op) ? 0 : -1, .count = count});
}

}  // namespace starling::dist
