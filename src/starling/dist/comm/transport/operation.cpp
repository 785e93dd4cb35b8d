#include "starling/dist/comm/transport/operation.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "starling/dist/comm/reduce.h"

namespace starling::dist {

ScratchPool::Piece ScratchPool::take(std::size_t bytes) {
  if (bytes == 0) return {};
  const auto fits = std::lower_bound(free_.begin(), free_.end(), bytes,
                                     [](const Piece& piece, std::size_t needed) { return piece.bytes < needed; });
  Piece piece;
  if (fits != free_.end()) {
    piece = std::move(*fits);
    free_.erase(fits);
  } else {
    if (!free_.empty()) free_.pop_back();
    piece = {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
  }
  return piece;
}

void ScratchPool::give_back(Piece piece) {
  if (piece.bytes == 0) return;
  const auto place = std::lower_bound(free_.begin(), free_.end(), piece.bytes,
                                      [](const Piece& p, std::size_t bytes) { return p.bytes < bytes; });
  free_.insert(place, std::move(piece));
}

void Operation::begin(const Call& call, const Fingerprint& print, std::shared_ptr<const Schedule> schedule,
                      const Peers& peers) {
  dtype_ = call.dtype;
  reduce_ = call.reduce;
  print_ = print;
  send_ = static_cast<std::byte*>(const_cast<void*>(call.send));
  recv_ = static_cast<std::byte*>(call.recv);
  schedule_ = std::move(schedule);
  peers_ = peers;
  outstanding_.clear();
  round_ = 0;
  begun_ = false;
  const CommTime now = CommClock::now();
  half_time_.store(now + (call.deadline - now) / 2, std::memory_order_relaxed);
}

bool Operation::advance(Transport& transport, ScratchPool& pool) {
  if (!begun_) {
    begun_ = true;
    scratch_ = pool.take(static_cast<std::size_t>(schedule_->scratch_bytes));
    run(schedule_->first);
    if (!schedule_->rounds.empty()) start_round(transport);
  }
  while (round_ < schedule_->rounds.size()) {
    std::erase_if(outstanding_, [&](const Outstanding& o) { return transport.test(o.transfer); });
    if (!outstanding_.empty()) return false;
    run(schedule_->rounds[round_].then);
    if (++round_ < schedule_->rounds.size()) start_round(transport);
  }
  pool.give_back(std::move(scratch_));
  scratch_ = {};
  completed_.store(print_.sequence, std::memory_order_release);
  return true;
}

// Posts receives before sends, so that arriving data has a destination.
void Operation::start_round(Transport& transport) {
  const Round& round = schedule_->rounds[round_];
  Traffic traffic{.steps = 1};
  for (const bool sends : {false, true}) {
    for (const ScheduledTransfer& t : round.transfers) {
      if (t.sends != sends) continue;
      const int peer = (*peers_.ranks)[static_cast<std::size_t>(t.peer)];
      std::byte* data = address(t.block);
      const auto bytes = static_cast<std::size_t>(t.block.bytes);
      const auto transfer =
          sends ? transport.send(peer, peers_.channel, data, bytes) : transport.recv(peer, peers_.channel, data, bytes);
      outstanding_.push_back({transfer, t.peer});
      (sends ? traffic.bytes_sent : traffic.bytes_received) += bytes;
      traffic.messages += sends ? 1 : 0;
    }
  }
  peers_.journal->moved(print_.op, traffic);
}

std::byte* Operation::address(const Block& block) const {
  switch (block.buffer) {
    case ScheduleBuffer::send: return send_ + block.offset;
    case ScheduleBuffer::recv: return recv_ + block.offset;
    case ScheduleBuffer::scratch: break;
  }
  return scratch_.memory.get() + block.offset;
}

void Operation::run(const std::vector<LocalWork>& works) const {
  for (const LocalWork& work : works) run(work);
}

void Operation::run(const LocalWork& work) const {
  std::byte* to = address(work.to);
  if (work.from.size() == 1) {
    const std::byte* from = address(work.from[0]);
    if (to != from) std::memcpy(to, from, static_cast<std::size_t>(work.to.bytes));
    return;
  }
  constexpr std::size_t kFew = 64;
  std::array<const void*, kFew> few;
  std::vector<const void*> many(work.from.size() > kFew ? work.from.size() : 0);
  const std::span<const void*> sources =
      many.empty() ? std::span<const void*>(few).first(work.from.size()) : std::span<const void*>(many);
  std::transform(work.from.begin(), work.from.end(), sources.begin(), [&](const Block& b) { return address(b); });

  const bool mean = work.completes && reduce_ == ReduceOp::mean;
  const int world = static_cast<int>(peers_.ranks->size());
  const bool at_once = mean && work.from.size() == peers_.ranks->size();
  const ReduceOp how = reduce_ == ReduceOp::mean && !at_once ? ReduceOp::sum : reduce_;
  const auto size = static_cast<std::int64_t>(size_of(dtype_)), count = work.to.bytes / size;
  alignas(64) std::byte block[kReduceBlock * 8];
  for (std::int64_t b = 0; b < count; b += kReduceBlock) {
    const std::int64_t n = std::min(kReduceBlock, count - b);
    reduce_block(dtype_, how, sources, b, n, block);
    if (mean && !at_once) divide_block(dtype_, block, n, world);
    std::memcpy(to + b * size, block, static_cast<std::size_t>(n * size));
  }
}

std::vector<int> Operation::waits_for() const {
  std::vector<int> ranks;
  for (const Outstanding& o : outstanding_) ranks.push_back(o.peer);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace starling::dist
