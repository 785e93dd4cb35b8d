#include "starling/dist/comm/shared/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace starling::dist {

Messages::Messages(SharedWorld& world, GroupBlock block, int rank, int size)
    : world_(world),
      block_(block),
      rank_(rank),
      size_(size),
      to_(static_cast<std::size_t>(size)),
      from_(static_cast<std::size_t>(size)) {}

bool Messages::completed(const Ticket& ticket) const { return line(ticket.op, ticket.peer).ended >= ticket.sequence; }

bool Messages::partner_arrived(const Ticket& ticket) const {
  const bool sends = ticket.op == CommOp::send;
  const PairFlags& pair = sends ? block_.pair(rank_, ticket.peer) : block_.pair(ticket.peer, rank_);
  return (sends ? pair.receiver : pair.sender).posted.load() >= ticket.sequence;
}

const Fingerprint& Messages::fingerprint(const Ticket& ticket) const {
  const bool sends = ticket.op == CommOp::send;
  const int from = sends ? rank_ : ticket.peer, to = sends ? ticket.peer : rank_;
  return block_.message(from, to, sends ? 0 : 1, ticket.sequence).fingerprint;
}

void Messages::post(const Call& call, std::uint64_t epoch) {
  auto* data = static_cast<std::byte*>(call.op == CommOp::send ? const_cast<void*>(call.send) : call.recv);
  const std::size_t bytes = static_cast<std::size_t>(call.count) * size_of(call.dtype);
  const Started started{fingerprint_of(call, rank_, epoch), {.data = data, .bytes = bytes}};
  Line& l = line(call.op, call.peer);
  ++outstanding_;
  if (l.waiting.empty() && has_slot(l, call.sequence)) return put(call.op, call.peer, started);
  l.waiting.push_back(started);
}

bool Messages::put_waiting(CommOp op, int peer) {
  Line& l = line(op, peer);
  bool moved = false;
  for (; !l.waiting.empty() && has_slot(l, l.waiting.front().fingerprint.sequence); l.waiting.pop_front()) {
    put(op, peer, l.waiting.front());
    moved = true;
  }
  return moved;
}

void Messages::put(CommOp op, int peer, const Started& started) {
  const bool sends = op == CommOp::send;
  const int from = sends ? rank_ : peer, to = sends ? peer : rank_;
  const std::uint64_t sequence = started.fingerprint.sequence;
  Line& l = line(op, peer);
  Pending& pending = l.ring[sequence % kSharedMessages];
  pending = started.message;
  MessagePost& post = block_.message(from, to, sends ? 0 : 1, sequence);
  std::construct_at(&post.fingerprint, started.fingerprint);
  if (sends) {
    const bool small = pending.bytes <= kMessageInline;
    if (small && pending.bytes > 0) {
      std::memcpy(block_.message_inline(from, to, sequence), pending.data, pending.bytes);
    }
    const bool shared = !small && world_.reachable(pending.data, pending.bytes);
    pending.where = small ? BufferLocation::in_slot : shared ? BufferLocation::reachable : BufferLocation::outside;
    post.where = pending.where;
    post.offset = shared ? world_.offset_of(pending.data) : 0;
  }
  RankRecord& record = world_.record(world_.rank());
  record.last_group.store(world_.offset_of(&block_.header()), std::memory_order_relaxed);
  record.last_post.store(world_.offset_of(&post.fingerprint), std::memory_order_relaxed);
  l.posted = sequence;
  PairFlags& pair = block_.pair(from, to);
  (sends ? pair.sender : pair.receiver).posted.store(sequence);
  world_.notify(static_cast<int>(block_.flags(peer).world_rank));
}

bool Messages::step() {
  if (outstanding_ == 0) return false;
  bool moved = false;
  for (int peer = 0; peer < size_; ++peer) {
    Line &out = line(CommOp::send, peer), &in = line(CommOp::recv, peer);
    if (!out.waiting.empty()) moved = put_waiting(CommOp::send, peer) || moved;
    if (!in.waiting.empty()) moved = put_waiting(CommOp::recv, peer) || moved;
    if (out.posted > out.ended) moved = send(peer, out) || moved;
    if (in.posted > in.ended) moved = receive(peer, in) || moved;
  }
  return moved;
}

void Messages::end(Line& line) {
  ++line.ended;
  line.moved = 0;
  line.agreed = false;
  --outstanding_;
}

bool Messages::send(int peer, Line& line) {
  const std::uint64_t sequence = line.ended + 1;
  PairFlags& pair = block_.pair(rank_, peer);
  if (pair.receiver.received.load(std::memory_order_acquire) >= sequence) {
    end(line);
    return true;
  }
  const Pending& message = line.ring[sequence % kSharedMessages];
  if (message.where != BufferLocation::outside || line.moved == message.bytes) return false;
  if (line.chunks >= pair.receiver.chunks.load(std::memory_order_acquire) + kMessageChunks) return false;
  const std::size_t bytes = std::min(kMessageChunkBytes, message.bytes - line.moved);
  std::memcpy(block_.message_chunk(rank_, peer, line.chunks), message.data + line.moved, bytes);
  line.moved += bytes;
  pair.sender.chunks.store(++line.chunks);
  world_.notify(static_cast<int>(block_.flags(peer).world_rank));
  return true;
}

bool Messages::receive(int peer, Line& line) {
  const std::uint64_t sequence = line.ended + 1;
  PairFlags& pair = block_.pair(peer, rank_);
  if (pair.sender.posted.load(std::memory_order_acquire) < sequence || !agreed(peer, line)) return false;
  Pending& message = line.ring[sequence % kSharedMessages];
  const bool moved = take(peer, line, message);
  if (line.moved < message.bytes) return moved;
  end(line);
  pair.receiver.received.store(sequence);
  world_.notify(static_cast<int>(block_.flags(peer).world_rank));
  return true;
}

bool Messages::agreed(int peer, Line& line) {
  if (line.agreed) return true;
  const std::uint64_t sequence = line.ended + 1;
  const Fingerprint& sent = block_.message(peer, rank_, 0, sequence).fingerprint;
  const Fingerprint& expected = block_.message(peer, rank_, 1, sequence).fingerprint;
  line.agreed = sent.agrees_with(expected);
  if (!line.agreed) {
    world_.break_with(fmt::format("ranks of group '{}' disagree: rank {} calls {}; its receiver calls {}",
                                  block_.header().label.data(), peer, describe(sent), describe(expected)));
  }
  return line.agreed;
}

// Receives a bounded piece of the message.
bool Messages::take(int peer, Line& line, Pending& message) {
  constexpr std::size_t kMostAtOnce = 1 << 20;
  const std::uint64_t sequence = line.ended + 1;
  const MessagePost& post = block_.message(peer, rank_, 0, sequence);
  const std::byte* from = nullptr;
  std::size_t bytes = message.bytes - line.moved;
  PairFlags& pair = block_.pair(peer, rank_);
  if (post.where == BufferLocation::in_slot) from = block_.message_inline(peer, rank_, sequence);
  if (post.where == BufferLocation::reachable) {
    from = world_.at(post.offset) + line.moved;
    bytes = std::min(bytes, kMostAtOnce);
  }
  if (post.where == BufferLocation::outside) {
    if (pair.sender.chunks.load(std::memory_order_acquire) == line.chunks) return false;
    from = block_.message_chunk(peer, rank_, line.chunks);
    bytes = std::min(bytes, kMessageChunkBytes);
  }
  {
    const SharedWorld::Visit visit(world_);
    if (visit.refused()) return false;
    if (bytes > 0) std::memcpy(message.data + line.moved, from, bytes);
    block_.traffic().add_message(rank_, peer, rank_, bytes, line.moved + bytes == message.bytes);
  }
  line.moved += bytes;
  if (post.where == BufferLocation::outside) {
    pair.receiver.chunks.store(++line.chunks);
    world_.notify(static_cast<int>(block_.flags(peer).world_rank));
  }
  return true;
}

}  // namespace starling::dist
