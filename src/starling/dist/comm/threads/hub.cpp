#include "starling/dist/comm/threads/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace starling::dist {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::uint64_t tag(std::uint64_t sequence) { return sequence << 32; }
std::uint64_t tag_of(std::uint64_t claim) { return claim & ~0xffffffffull; }
std::uint64_t unclaimed(std::uint64_t claim) { return claim & 0xffffffffull; }

}  // namespace

Hub::Slot::Slot(int world) : posts(at(world)), arrived_in(at(world)), parts(at(world)), exchange(world) {}

Hub::Hub(std::shared_ptr<Family> family, int world, std::string label)
    : family_(std::move(family)),
      world_(world),
      label_(std::move(label)),
      pairs_(at(world) * at(world)),
      started_(at(world)),
      left_(at(world)),
      statuses_(at(world)),
      moved_(TrafficTable::entries(world)),
      traffic_(moved_.data(), world) {
  slots_.reserve(kSlots);
  for (std::uint64_t i = 0; i < kSlots; ++i) slots_.push_back(std::make_unique<Slot>(world));
}

bool Hub::post(const Call& call, const Fingerprint& print, int rank) {
  return is_point_to_point(call.op) ? post_message(call, print, rank) : post_collective(call, print, rank);
}

bool Hub::post_collective(const Call& call, const Fingerprint& print, int rank) {
  if (call.sequence > kSlots) {
    const Ticket before{.op = CommOp::barrier, .sequence = call.sequence - kSlots};
    if (!vacate(before, rank, call.deadline)) return false;
  }
  if (family_->broken()) return false;
  Slot& s = slot(call.sequence);
  s.posts[at(rank)].fill(call, print);
  s.arrived_in[at(rank)].store(call.sequence);
  started_[at(rank)].store(call.sequence);
  if (s.arrived.fetch_add(1) + 1 == world_) open(s, call.sequence, rank);
  return true;
}

// Called once all ranks have posted; this thread alone touches the slot until it stores the claim.
void Hub::open(Slot& s, std::uint64_t sequence, int rank) {
  std::vector<Fingerprint> prints;
  const auto agrees = [&](const Post& p) { return p.fingerprint.agrees_with(s.posts[0].fingerprint); };
  if (!std::all_of(s.posts.begin(), s.posts.end(), agrees)) {
    for (const Post& post : s.posts) prints.push_back(post.fingerprint);
    family_->break_with(fmt::format("ranks of group '{}' disagree: {}", label_, describe_mismatch(prints)));
    return;
  }
  s.exchange.open(s.posts);
  if (s.posts[0].fingerprint.op == CommOp::split) make_parts(s, sequence);
  const std::int64_t units = s.exchange.units();
  if (units == 0) return complete(s, sequence);
  s.finished_units.store(0);
  s.claim.store(tag(sequence) | static_cast<std::uint64_t>(units));
  if (units == 1) return help(s, sequence, rank);  // small: cheaper to run here than to wake anyone
  family_->ring();
}

void Hub::help(Slot& s, std::uint64_t sequence, int rank) {
  const Family::Visit visit(*family_);
  std::uint64_t claim = s.claim.load();
  while (tag_of(claim) == tag(sequence) && unclaimed(claim) > 0 && !visit.refused()) {
    if (!s.claim.compare_exchange_weak(claim, claim - 1)) continue;
    // The slot stays this operation's until the claimed unit is counted as finished.
    const std::int64_t units = s.exchange.units();
    {
      PieceTally tally(traffic_, rank, s.posts[0].fingerprint.op);
      s.exchange.run(units - static_cast<std::int64_t>(unclaimed(claim)), tally);
    }
    if (s.finished_units.fetch_add(1) + 1 == units) return complete(s, sequence);
    claim = s.claim.load();
  }
}

void Hub::complete(Slot& s, std::uint64_t sequence) {
  s.arrived.store(0);
  std::uint64_t last = last_completed_.load();
  while (last < sequence && !last_completed_.compare_exchange_weak(last, sequence)) {
  }
  s.completed.store(sequence);
  family_->ring();
}

Hub::Message& Hub::message(const Ticket& ticket, int rank) {
  const int from = ticket.op == CommOp::send ? rank : ticket.peer;
  const int to = ticket.op == CommOp::send ? ticket.peer : rank;
  Pair& pair = pairs_[at(from) * at(world_) + at(to)];
  std::call_once(pair.made, [&] { pair.ring = std::make_unique<Message[]>(kMessages); });
  return pair.ring[ticket.sequence % kMessages];
}

bool Hub::post_message(const Call& call, const Fingerprint& print, int rank) {
  if (call.sequence > kMessages) {
    const Ticket before{.op = call.op, .peer = call.peer, .sequence = call.sequence - kMessages};
    if (!vacate(before, rank, call.deadline)) return false;
  }
  if (family_->broken()) return false;
  Message& m = message({.op = call.op, .peer = call.peer, .sequence = call.sequence}, rank);
  const int side = call.op == CommOp::send ? 0 : 1;
  m.posts[side].fill(call, print);
  m.arrived_in[side].store(call.sequence);
  if (m.arrived.fetch_add(1) + 1 == 2) deliver(m, call, rank);
  return true;
}

void Hub::deliver(Message& m, const Call& call, int rank) {
  const Fingerprint &sent = m.posts[0].fingerprint, &expected = m.posts[1].fingerprint;
  if (!sent.agrees_with(expected)) {
    family_->break_with(fmt::format("ranks of group '{}' disagree: rank {} calls {}; its receiver calls {}", label_,
                                    sent.root, describe(sent), describe(expected)));
    return;
  }
  const Family::Visit visit(*family_);
  if (visit.refused()) return;
  const auto bytes = static_cast<std::size_t>(sent.count) * size_of(sent.dtype);
  if (bytes > 0) std::memcpy(m.posts[1].recv, m.posts[0].send, bytes);
  const bool sends = call.op == CommOp::send;
  traffic_.add_message(rank, sends ? rank : call.peer, sends ? call.peer : rank, bytes);
  m.arrived.store(0);
  m.completed.store(call.sequence);
  family_->ring();
}

bool Hub::completed(const Ticket& ticket, int rank) {
  if (is_point_to_point(ticket.op)) return message(ticket, rank).completed.load() >= ticket.sequence;
  return slot(ticket.sequence).completed.load() >= ticket.sequence;
}

bool Hub::has_units(const Ticket& ticket) {
  if (is_point_to_point(ticket.op)) return false;
  const std::uint64_t claim = slot(ticket.sequence).claim.load();
  return tag_of(claim) == tag(ticket.sequence) && unclaimed(claim) > 0;
}

bool Hub::done(const Ticket& ticket, int rank) {
  if (has_units(ticket)) help(slot(ticket.sequence), ticket.sequence, rank);
  return completed(ticket, rank);
}

std::vector<int> Hub::missing(const Ticket& ticket, int rank) {
  std::vector<int> ranks;
  if (is_point_to_point(ticket.op)) {
    const int other = ticket.op == CommOp::send ? 1 : 0;
    if (message(ticket, rank).arrived_in[other].load() < ticket.sequence) ranks.push_back(ticket.peer);
    return ranks;
  }
  for (int r = 0; r < world_; ++r) {
    if (slot(ticket.sequence).arrived_in[at(r)].load() < ticket.sequence) ranks.push_back(r);
  }
  return ranks;
}

// True if a rank that this operation still needs has left the group.
bool Hub::deserted(const Ticket& ticket, int rank) {
  if (completed(ticket, rank)) return false;
  const auto left = [&](const auto& flag) { return flag.load(); };
  if (std::none_of(left_.begin(), left_.end(), left)) return false;
  const std::vector<int> ranks = missing(ticket, rank);
  return std::any_of(ranks.begin(), ranks.end(), [&](int r) { return left_[at(r)].load(); });
}

Hub::Outcome Hub::await(const Ticket& ticket, int rank, CommTime deadline) {
  const auto changed = [&] {
    return completed(ticket, rank) || family_->broken() || has_units(ticket) || deserted(ticket, rank);
  };
  while (!completed(ticket, rank)) {
    if (family_->broken()) {
      family_->drain();
      return completed(ticket, rank) ? Outcome::ended : Outcome::broken;  // the last unit may have completed meanwhile
    }
    if (has_units(ticket)) {
      help(slot(ticket.sequence), ticket.sequence, rank);
    } else if (!family_->wait(changed, deadline)) {
      return Outcome::late;
    } else if (deserted(ticket, rank)) {
      break_over(ticket, rank, "a rank has left");
    }
  }
  return Outcome::ended;
}

// Waits for the operation whose place in a ring is to be reused.
bool Hub::vacate(const Ticket& before, int rank, CommTime deadline) {
  const Outcome outcome = await(before, rank, deadline);
  if (outcome == Outcome::late) expire(before, rank);
  return outcome == Outcome::ended;
}

void Hub::expire(const Ticket& ticket, int rank) {
  break_over(ticket, rank, "the deadline has passed");
  family_->drain();
}

void Hub::break_over(const Ticket& ticket, int rank, std::string_view why) {
  family_->break_with(fmt::format("rank {} in {} of group '{}': {}{}", rank, describe_call(ticket, rank), label_, why,
                                  blame(ticket, rank)));
}

std::string Hub::status(int rank) const {
  return fmt::format("{} ({}last started #{})", rank, left_[at(rank)].load() ? "left the group, " : "",
                     started_[at(rank)].load());
}

std::string Hub::blame(const Ticket& ticket, int rank) {
  std::vector<std::string> names;
  for (int r : missing(ticket, rank)) names.push_back(status(r));
  const std::string who =
      names.empty() ? "all ranks had arrived" : fmt::format("not arrived: rank {}", fmt::join(names, ", rank "));
  return fmt::format("; {}; last finished by all #{}", who, last_completed_.load());
}

std::string Hub::describe_call(const Ticket& ticket, int rank) {
  const Post& post = is_point_to_point(ticket.op) ? message(ticket, rank).posts[ticket.op == CommOp::send ? 0 : 1]
                                                  : slot(ticket.sequence).posts[at(rank)];
  if (post.fingerprint.sequence == ticket.sequence) return describe(post.fingerprint);
  return fmt::format("{} #{}", name(ticket.op), ticket.sequence);
}

// Makes a hub for the ranks of each color, ordered by key, then by rank.
void Hub::make_parts(Slot& s, std::uint64_t sequence) {
  std::map<std::int64_t, std::vector<int>> members;
  for (int r = 0; r < world_; ++r) {
    s.parts[at(r)] = {};
    if (s.posts[at(r)].color_and_key[0] >= 0) members[s.posts[at(r)].color_and_key[0]].push_back(r);
  }
  for (auto& [color, ranks] : members) {
    std::stable_sort(ranks.begin(), ranks.end(),
                     [&](int a, int b) { return s.posts[at(a)].color_and_key[1] < s.posts[at(b)].color_and_key[1]; });
    const std::string label = fmt::format("{}/{}.{}", label_, sequence, color);
    const auto hub = std::make_shared<Hub>(family_, static_cast<int>(ranks.size()), label);
    for (std::size_t i = 0; i < ranks.size(); ++i)
      s.parts[at(ranks[i])] = {hub, static_cast<int>(i), static_cast<int>(ranks.size()), label};
  }
}

Hub::Part Hub::take_part(std::uint64_t sequence, int rank) { return std::exchange(slot(sequence).parts[at(rank)], {}); }

void Hub::tell(int rank, const RankStatus& status) {
  std::scoped_lock lock(standings_mutex_);
  statuses_[at(rank)] = status;
}

RankStatus Hub::heard(int rank) const {
  std::scoped_lock lock(standings_mutex_);
  return statuses_[at(rank)];
}

void Hub::leave(int rank, const Journal& journal) {
  const auto unfinished = [&](CommOp op, int peer) {
    const Ticket last{.op = op, .peer = peer, .sequence = journal.last_sequence(op, peer)};
    if (last.sequence == 0 || completed(last, rank) || family_->broken()) return;
    family_->break_with(
        fmt::format("rank {} left group '{}' without waiting for {}", rank, label_, describe_call(last, rank)));
  };
  unfinished(CommOp::barrier, -1);
  for (int peer = 0; peer < world_; ++peer) {
    unfinished(CommOp::send, peer);
    unfinished(CommOp::recv, peer);
  }
  if (family_->broken()) family_->drain();
  left_[at(rank)].store(true);
  family_->ring();
}

}  // namespace starling::dist
