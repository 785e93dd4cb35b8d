#include "starling/dist/comm/shared/shared_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace starling::dist {

SharedGroup::SharedGroup(std::shared_ptr<SharedWorld> world, std::uint64_t block, int rank, std::string label)
    : world_(std::move(world)),
      block_(world_->at(block)),
      rank_(rank),
      size_(static_cast<int>(block_.header().size)),
      label_(std::move(label)),
      collectives_(*world_, block_, rank, size_),
      messages_(*world_, block_, rank, size_) {
  world_->add(*this);
}

SharedGroup::~SharedGroup() { world_->remove(*this); }

bool SharedGroup::step() {
  const bool moved = collectives_.step();
  return messages_.step() || moved;
}

bool SharedGroup::post(const Call& call, std::uint64_t epoch, RankProgress* rank_progress) {
  if (!fits(call)) return false;
  {
    const std::scoped_lock lock(world_->mutex());
    if (has_room(call)) return put(call, epoch);
  }
  {
    const RankProgress::Waiting waiting(rank_progress);
    if (!make_room(call)) return false;
  }
  const std::scoped_lock lock(world_->mutex());
  return put(call, epoch);
}

bool SharedGroup::has_room(const Call& call) {
  return is_point_to_point(call.op) || collectives_.has_room(call.sequence);
}

bool SharedGroup::put(const Call& call, std::uint64_t epoch) {
  if (world_->broken()) return false;
  if (is_point_to_point(call.op)) {
    messages_.post(call, epoch);
  } else {
    collectives_.post(call, epoch);
  }
  return true;
}

// One element of all shards must fit into a chunk, where chunks are used. On failure the world is broken, since the
// others wait for this call.
bool SharedGroup::fits(const Call& call) {
  constexpr std::int64_t kMost = kChunkBytes / 8;
  if (call.shards <= kMost || world_->reach() == SharedWorld::Reach::process) return true;
  world_->break_with(fmt::format("rank {} of group '{}' gives {} shards to {}, of at most {}", rank_, label_,
                                 call.shards, name(call.op), kMost));
  return false;
}

bool SharedGroup::make_room(const Call& call) {
  const Ticket before{.op = call.op, .peer = call.peer, .sequence = call.sequence - kSharedSlots};
  const Outcome outcome = wait(
      before, [&] { return has_room(call); }, call.deadline);
  if (outcome == Outcome::late) expire(before);
  return outcome == Outcome::ended;
}

bool SharedGroup::completed(const Ticket& ticket) const {
  return is_point_to_point(ticket.op) ? messages_.completed(ticket) : collectives_.completed(ticket.sequence);
}

bool SharedGroup::done(const Ticket& ticket) {
  const std::scoped_lock lock(world_->mutex());
  if (completed(ticket)) return true;
  world_->step();
  finish_alone(ticket);
  return completed(ticket);
}

template <class Done>
SharedGroup::Outcome SharedGroup::wait(const Ticket& ticket, Done done, CommTime deadline) {
  bool ended = false;
  const auto over = [&] { return ended = done(); };
  const auto look = [&] {
    if (deserted(ticket)) break_over(ticket, "a rank has left");
  };
  const bool changed = world_->wait(over, look, deadline);
  if (ended) return Outcome::ended;
  if (!changed) return Outcome::late;
  world_->drain();
  const std::scoped_lock lock(world_->mutex());
  finish_alone(ticket);
  return done() ? Outcome::ended : Outcome::broken;  // the last piece may have completed meanwhile
}

// Completes a collective that all ranks had come to before the world broke: what they agreed on is known to all of
// them, such as why one of them ends. Only one whose buffers its caller still holds.
void SharedGroup::finish_alone(const Ticket& ticket) {
  if (world_->broken() && !is_point_to_point(ticket.op)) collectives_.finish(ticket.sequence);
}

SharedGroup::Outcome SharedGroup::await(const Ticket& ticket, CommTime deadline) {
  return wait(
      ticket, [&] { return completed(ticket); }, deadline);
}

std::vector<int> SharedGroup::missing(const Ticket& ticket) const {
  if (!is_point_to_point(ticket.op)) return collectives_.not_arrived(ticket.sequence);
  return messages_.partner_arrived(ticket) ? std::vector<int>() : std::vector<int>{ticket.peer};
}

// True if a rank that this operation still needs has left the group.
bool SharedGroup::deserted(const Ticket& ticket) const {
  bool left = false;
  for (int r = 0; r < size_; ++r) left = left || block_.flags(r).left.load() != 0;
  if (!left) return false;
  const std::scoped_lock lock(world_->mutex());
  if (completed(ticket)) return false;
  const std::vector<int> ranks = missing(ticket);
  return std::any_of(ranks.begin(), ranks.end(), [&](int r) { return block_.flags(r).left.load() != 0; });
}

void SharedGroup::expire(const Ticket& ticket) {
  break_over(ticket, "the deadline has passed");
  world_->drain();
}

void SharedGroup::abort(const std::string& reason) {
  world_->break_with(reason);
  world_->drain();
}

void SharedGroup::break_over(const Ticket& ticket, std::string_view why) {
  world_->break_with(
      fmt::format("rank {} in {} of group '{}': {}{}", rank_, describe_call(ticket), label_, why, blame(ticket)));
}

std::string SharedGroup::status(int rank) const {
  const RankFlags& flags = block_.flags(rank);
  return fmt::format("{} ({}last started #{})", rank, flags.left.load() != 0 ? "left the group, " : "",
                     flags.started.load());
}

std::uint64_t SharedGroup::last_finished() const {
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  for (int r = 0; r < size_; ++r) last = std::min(last, block_.flags(r).finished.load());
  return last;
}

std::string SharedGroup::blame(const Ticket& ticket) const {
  std::vector<std::string> names;
  for (int r : missing(ticket)) names.push_back(status(r));
  std::string who = fmt::format("not arrived: rank {}", fmt::join(names, ", rank "));
  if (names.empty()) who = "all ranks had arrived";
  if (names.empty() && !is_point_to_point(ticket.op)) {
    const std::vector<int> slow = collectives_.not_finished(ticket.sequence);
    if (!slow.empty()) who += fmt::format(", not yet done: rank {}", fmt::join(slow, ", rank "));
  }
  return fmt::format("; {}; last finished by all #{}", who, last_finished());
}

std::string SharedGroup::describe_call(const Ticket& ticket) const {
  const Fingerprint& print =
      is_point_to_point(ticket.op) ? messages_.fingerprint(ticket) : block_.post(ticket.sequence, rank_).fingerprint;
  if (print.sequence == ticket.sequence) return describe(print);
  return fmt::format("{} #{}", name(ticket.op), ticket.sequence);
}

// Ranks of this rank's color, ordered by key, then by rank.
std::vector<int> SharedGroup::members(const Call& call) const {
  std::vector<int> ranks;
  for (int r = 0; r < size_; ++r) {
    if (block_.post(call.sequence, r).color == call.color) ranks.push_back(r);
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](int a, int b) { return block_.post(call.sequence, a).key < block_.post(call.sequence, b).key; });
  return ranks;
}

void SharedGroup::make_block(const Call& call, const std::vector<int>& members, const std::string& label) {
  const int size = static_cast<int>(members.size());
  std::byte* data = world_->new_block(size);
  const GroupBlock block = GroupBlock::make(data, size, label);
  for (int r = 0; r < size; ++r) {
    block.flags(r).world_rank = block_.flags(members[static_cast<std::size_t>(r)]).world_rank;
  }
  SharedPost& post = block_.post(call.sequence, rank_);
  post.part_offset = world_->offset_of(data);
  post.part.store(call.sequence);
  for (int r : members) world_->notify(static_cast<int>(block_.flags(r).world_rank));
}

SharedGroup::Outcome SharedGroup::split(const Call& call, Part& part) {
  const Ticket ticket{.op = call.op, .sequence = call.sequence};
  Outcome outcome = wait(
      ticket, [&] { return collectives_.opened_split(call.sequence); }, call.deadline);
  if (outcome != Outcome::ended) return outcome;
  const std::vector<int> ranks = call.color < 0 ? std::vector<int>() : members(call);
  if (!ranks.empty()) {
    const SharedPost& first = block_.post(call.sequence, ranks[0]);
    part.label = fmt::format("{}/{}.{}", label_, call.sequence, call.color);
    part.size = static_cast<int>(ranks.size());
    part.rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
    if (part.rank == 0) make_block(call, ranks, part.label);
    outcome = wait(
        ticket, [&] { return first.part.load() == call.sequence; }, call.deadline);
    if (outcome != Outcome::ended) return outcome;
    part.group = std::make_shared<SharedGroup>(world_, first.part_offset, part.rank, part.label);
  }
  const std::scoped_lock lock(world_->mutex());
  collectives_.end_split(call.sequence);
  return Outcome::ended;
}

std::uint64_t SharedGroup::oldest_collective() {
  const std::scoped_lock lock(world_->mutex());
  world_->step();
  return collectives_.unfinished();
}

namespace {

// Try-lock with bounded retries: normally free within moments, unless its holder died.
class Moment {
 public:
  explicit Moment(std::atomic<std::uint32_t>& flag) : flag_(flag) {
    for (int i = 0; i < 10'000 && !held_; ++i) held_ = flag_.exchange(1, std::memory_order_acquire) == 0;
  }
  ~Moment() {
    if (held_) flag_.store(0, std::memory_order_release);
  }
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;
  bool held() const { return held_; }

 private:
  std::atomic<std::uint32_t>& flag_;
  bool held_ = false;
};

}  // namespace

void SharedGroup::tell(const RankStatus& status) {
  const Moment moment(block_.flags(rank_).telling);
  if (moment.held()) write_rank_status(status, block_.status(rank_));
}

RankStatus SharedGroup::heard(int rank) const {
  const Moment moment(block_.flags(rank).telling);
  return moment.held() ? read_rank_status(block_.status(rank), size_) : RankStatus{};
}

void SharedGroup::leave(const Journal& journal) {
  const auto leaves = [&](const Ticket& last) {
    if (last.sequence == 0 || world_->broken() || done(last)) return;
    world_->break_with(
        fmt::format("rank {} left group '{}' without waiting for {}", rank_, label_, describe_call(last)));
  };
  const auto unfinished = [&](CommOp op, int peer) {
    leaves({.op = op, .peer = peer, .sequence = journal.last_sequence(op, peer)});
  };
  leaves({.op = CommOp::barrier, .sequence = oldest_collective()});
  for (int peer = 0; peer < size_; ++peer) {
    unfinished(CommOp::send, peer);
    unfinished(CommOp::recv, peer);
  }
  if (world_->broken()) world_->drain();
  block_.flags(rank_).left.store(1);
  for (int r = 0; r < size_; ++r) world_->notify(static_cast<int>(block_.flags(r).world_rank));
}

}  // namespace starling::dist
