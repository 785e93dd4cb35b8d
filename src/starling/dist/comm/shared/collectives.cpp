#include "starling/dist/comm/shared/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "starling/dist/comm/reduce.h"

namespace starling::dist {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Digest of the fields that all ranks must agree on; see Fingerprint::agrees_with.
std::uint64_t digest_of(const Fingerprint& f) {
  const std::uint64_t words[] = {f.sequence, f.epoch, static_cast<std::uint64_t>(f.count), f.hash,
                                 static_cast<std::uint64_t>(f.root) << 32 | static_cast<std::uint64_t>(f.op) << 16 |
                                     static_cast<std::uint64_t>(f.dtype) << 8 | static_cast<std::uint64_t>(f.reduce)};
  std::uint64_t digest = 0x9e3779b97f4a7c15ull;
  for (std::uint64_t word : words) {
    digest = (digest ^ word) * 0xff51afd7ed558ccdull;
    digest ^= digest >> 32;
  }
  return digest;
}

constexpr std::size_t kFetchedAhead = 1024;

void fetch_to_write(const void* data, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 64) {
    const auto* line = static_cast<const std::byte*>(data) + at;
#if defined(__x86_64__)
    asm volatile("prefetchw %0" ::"m"(*line));  // the builtin emits it for newer processors only
#else
    __builtin_prefetch(line, 1);
#endif
  }
}

}  // namespace

Collectives::Collectives(SharedWorld& world, GroupBlock block, int rank, int size)
    : world_(world), block_(block), rank_(rank), size_(size) {
  for (Operation& op : operations_) {
    op.shards.resize(at(size));
    op.sources.resize(at(size));
  }
}

bool Collectives::has_room(std::uint64_t sequence) {
  if (sequence <= kSharedSlots) return true;
  const std::uint64_t before = sequence - kSharedSlots;
  return completed(before) && least(&RankFlags::finished, least_finished_, before) >= before;
}

bool Collectives::completed(std::uint64_t sequence) const {
  return sequence < oldest_ || operation(sequence).way == Way::over;
}

// Latency-critical until the sequence number is stored, since others wait for it; local bookkeeping comes after.
void Collectives::post(const Call& call, std::uint64_t epoch) {
  const std::uint64_t sequence = call.sequence;
  Operation& op = operation(sequence);
  SharedPost& post = block_.post(sequence, rank_);
  std::construct_at(&post.fingerprint, fingerprint_of(call, rank_, epoch));
  post.color = call.color;
  post.key = call.key;
  Arrival& arrival = block_.arrival(sequence, rank_);
  arrival.digest = digest_of(post.fingerprint);
  arrival.shards = static_cast<std::uint32_t>(call.shards);
  arrival.source = op.source = place_source(call, arrival, post);
  arrival.target = place_target(call, post);
  RankRecord& record = world_.record(world_.rank());
  record.last_group.store(world_.offset_of(&block_.header()), std::memory_order_relaxed);
  record.last_post.store(world_.offset_of(&post.fingerprint), std::memory_order_relaxed);
  block_.flags(rank_).started.store(sequence, std::memory_order_relaxed);
  block_.phases(sequence)[rank_].store(0, std::memory_order_relaxed);
  published_ = oldest_ - 1;
  block_.flags(rank_).finished.store(published_, std::memory_order_release);
  arrival.sequence.store(sequence, std::memory_order_release);  // see SharedWorld::sleep
  notify_others();
  // Prefetch for writing the cache lines of the next call, if it is like this one: other ranks hold them now.
  fetch_to_write(&block_.arrival(sequence + 1, rank_), 1);
  if (op.source == BufferLocation::in_slot) fetch_to_write(block_.in_slot(sequence + 1, rank_), kFetchedAhead);
  op.counts.assign(call.counts.begin(), call.counts.end());
  op.call = call;
  op.call.counts = op.counts;
  op.call.name = {};
  op.way = Way::unknown;
  op.arrived = 0;
  next_ = sequence + 1;
}

// Small data is copied even from an arena: the buffer may be overwritten in place before all ranks have read it.
BufferLocation Collectives::place_source(const Call& call, Arrival& arrival, SharedPost& post) {
  const std::size_t bytes = Pieces::source_bytes(call, rank_, size_);
  if (bytes == 0) return BufferLocation::nowhere;
  if (bytes <= arrival.tiny.size()) {
    std::memcpy(arrival.tiny.data(), call.send, bytes);
    return BufferLocation::tiny;
  }
  if (bytes <= kInlineBytes) {
    std::memcpy(block_.in_slot(call.sequence, rank_), call.send, bytes);
    return BufferLocation::in_slot;
  }
  if (!world_.reachable(call.send, bytes)) return BufferLocation::outside;
  post.send = world_.offset_of(call.send);
  return BufferLocation::reachable;
}

BufferLocation Collectives::place_target(const Call& call, SharedPost& post) const {
  const std::size_t bytes = Pieces::target_bytes(call, rank_, size_);
  if (bytes == 0) return BufferLocation::nowhere;
  if (!world_.reachable(call.recv, bytes)) return BufferLocation::outside;
  post.recv = world_.offset_of(call.recv);
  return BufferLocation::reachable;
}

void Collectives::notify_others() {
  for (int r = 0; r < size_; ++r) {
    if (r != rank_) world_.notify(static_cast<int>(block_.flags(r).world_rank));
  }
}

bool Collectives::step() {
  bool moved = false;
  for (std::uint64_t k = oldest_; k < next_; ++k) {
    Operation& op = operation(k);
    if (op.way == Way::over) continue;
    if (op.way == Way::unknown && !arrived(op)) break;  // later operations have not arrived either
    moved = advance(op) || moved;
    if (world_.broken()) return moved;
  }
  finish_prefix();
  return moved;
}

void Collectives::finish(std::uint64_t sequence) {
  if (sequence < oldest_ || sequence >= next_) return;
  Operation& op = operation(sequence);
  if (op.way != Way::over && arrived(op)) advance(op);
}

void Collectives::finish_prefix() {
  const std::uint64_t before = oldest_;
  while (oldest_ < next_ && operation(oldest_).way == Way::over) ++oldest_;
  // Lazy announcement: the next call, usually soon, announces it for free; otherwise the next progress step does.
  const bool later = oldest_ == before + 1 && operation(before).source == BufferLocation::tiny;
  if (!later && published_ + 1 < oldest_) publish_finished();
}

void Collectives::publish_finished() {
  published_ = oldest_ - 1;
  block_.flags(rank_).finished.store(published_);
  notify_others();
}

bool Collectives::arrived(Operation& op) {
  while (op.arrived < size_) {
    const Arrival& arrival = block_.arrival(op.call.sequence, op.arrived);
    if (arrival.sequence.load(std::memory_order_acquire) != op.call.sequence) return false;
    ++op.arrived;
  }
  return true;
}

bool Collectives::advance(Operation& op) {
  if (op.way == Way::unknown && !open(op)) return false;
  switch (op.way) {
    case Way::over: return true;
    case Way::small: return take_small(op);
    case Way::direct: return run_unit(op);
    case Way::staged: return stage(op);
    default: return false;
  }
}

bool Collectives::open(Operation& op) {
  if (!agreed(op)) return false;
  const bool small = op.source == BufferLocation::tiny || op.source == BufferLocation::in_slot;
  if (small && op.call.op == CommOp::all_reduce) return reduce_small(op);
  const bool sharded = op.call.op == CommOp::sum_shards;
  op.pieces.emplace(op.call, rank_, size_, op.operands, std::span(op.shards).first(sharded ? op.shards.size() : 0));
  find_sources(op);
  const Way way = way_of(op);
  if (way == Way::direct) open_direct(op);
  if (way == Way::staged) open_staged(op);
  op.way = way;
  return true;
}

bool Collectives::agreed(const Operation& op) {
  const std::uint64_t sequence = op.call.sequence, digest = block_.arrival(sequence, rank_).digest;
  bool same = true;
  for (int r = 0; r < size_; ++r) same = same && block_.arrival(sequence, r).digest == digest;
  if (same) return true;
  std::vector<Fingerprint> prints;
  for (int r = 0; r < size_; ++r) prints.push_back(block_.post(sequence, r).fingerprint);
  world_.break_with(
      fmt::format("ranks of group '{}' disagree: {}", block_.header().label.data(), describe_mismatch(prints)));
  return false;
}

void Collectives::find_sources(Operation& op) {
  for (int r = 0; r < size_; ++r) {
    Arrival& arrival = block_.arrival(op.call.sequence, r);
    op.shards[at(r)] = arrival.shards;
    Pieces::Source& source = op.sources[at(r)];
    switch (arrival.source) {
      case BufferLocation::tiny: source = {arrival.tiny.data(), false}; break;
      case BufferLocation::in_slot: source = {block_.in_slot(op.call.sequence, r), false}; break;
      case BufferLocation::reachable: source = {world_.at(block_.post(op.call.sequence, r).send), false}; break;
      case BufferLocation::outside: source = {nullptr, true}; break;
      case BufferLocation::nowhere: source = {nullptr, false}; break;
    }
  }
}

Collectives::Way Collectives::way_of(const Operation& op) const {
  bool small = true, direct = true;
  for (int r = 0; r < size_; ++r) {
    const Arrival& arrival = block_.arrival(op.call.sequence, r);
    small = small && arrival.source != BufferLocation::reachable && arrival.source != BufferLocation::outside;
    direct = direct && arrival.source != BufferLocation::outside && arrival.target != BufferLocation::outside;
  }
  if (small || size_ == 1) return Way::small;
  return direct ? Way::direct : Way::staged;
}

// Fast path for small all-reduces: all contributions lie in the arrivals just read or in the slot.
bool Collectives::reduce_small(Operation& op) {
  const Call& call = op.call;
  op.operands.clear();
  for (int r = 0; r < size_; ++r) {
    op.operands.push_back(op.source == BufferLocation::tiny ? block_.arrival(call.sequence, r).tiny.data()
                                                            : block_.in_slot(call.sequence, r));
  }
  const auto size = static_cast<std::int64_t>(size_of(call.dtype));
  PieceTally tally = tally_of(op);
  for (std::int64_t b = 0; b < call.count; b += kReduceBlock) {
    const std::int64_t n = std::min(kReduceBlock, call.count - b);
    reduce_block(call.dtype, call.reduce, op.operands, b, n, static_cast<std::byte*>(call.recv) + b * size);
    for (int r = 0; r < size_; ++r) tally.moved(r, rank_, n * size, b + n == call.count);
  }
  op.way = Way::over;
  return true;
}

bool Collectives::take_small(Operation& op) {
  if (op.call.op == CommOp::split) return false;
  op.pieces->set_width(std::numeric_limits<std::int64_t>::max() / 16);
  PieceTally tally = tally_of(op);
  op.pieces->take(0, op.sources, tally);
  op.way = Way::over;
  return true;
}

void Collectives::end_split(std::uint64_t sequence) {
  operation(sequence).way = Way::over;
  finish_prefix();
}

std::vector<int> Collectives::not_arrived(std::uint64_t sequence) const {
  std::vector<int> ranks;
  for (int r = 0; r < size_; ++r) {
    if (block_.arrival(sequence, r).sequence.load() < sequence) ranks.push_back(r);
  }
  return ranks;
}

std::vector<int> Collectives::not_finished(std::uint64_t sequence) const {
  std::vector<int> ranks;
  for (int r = 0; r < size_; ++r) {
    if (block_.flags(r).finished.load() < sequence) ranks.push_back(r);
  }
  return ranks;
}

std::uint64_t Collectives::least(std::atomic<std::uint64_t> RankFlags::*flag, std::uint64_t& known,
                                 std::uint64_t wanted) const {
  if (known >= wanted) return known;
  std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
  for (int r = 0; r < size_; ++r) {
    lowest = std::min(lowest, (block_.flags(r).*flag).load(std::memory_order_acquire));
    if (lowest < wanted) return lowest;
  }
  return known = lowest;
}

}  // namespace starling::dist
