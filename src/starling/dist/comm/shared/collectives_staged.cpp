// Collectives with buffers that others cannot reach: through the staging memory, a chunk of it for each part.
#include "starling/dist/comm/shared/collectives.h"

namespace starling::dist {

void Collectives::open_staged(Operation& op) {
  constexpr std::size_t kSmallestChunk = 32 << 10;
  Pieces& pieces = *op.pieces;
  // Several parts even where one would do, so that staging, reducing and copying out overlap.
  const std::int64_t widest = pieces.width_within(kChunkBytes), least = pieces.width_within(kSmallestChunk);
  pieces.set_width(1);
  pieces.set_width(std::clamp((pieces.parts() + 4 * 64 - 1) / (4 * 64) * 64, least, widest));
  op.parts = pieces.parts();
  op.first_chunk = next_chunk_;
  next_chunk_ += static_cast<std::uint64_t>(op.parts);
  op.staged = op.reduced = op.taken = 0;
}

bool Collectives::stage(Operation& op) {
  if (staging_ == 0) staging_ = op.call.sequence;
  bool moved = false;
  if (staging_ == op.call.sequence) {
    moved = take_part(op) || moved;
    moved = reduce_share(op) || moved;
    moved = stage_in(op) || moved;
    if (op.taken == op.parts) staging_ = 0;
  }
  if (op.taken == op.parts && sources_at_rest(op)) {
    op.way = Way::over;
    return true;
  }
  return moved;
}

// True if no other rank still reads this rank's own buffer; staged copies do not count.
bool Collectives::sources_at_rest(const Operation& op) const {
  const std::uint64_t end = op.first_chunk + static_cast<std::uint64_t>(op.parts);
  return op.source != BufferLocation::reachable || least(&RankFlags::drained, least_drained_, end) >= end;
}

bool Collectives::stage_in(Operation& op) {
  if (op.staged == op.parts) return false;
  const std::uint64_t chunk = op.first_chunk + static_cast<std::uint64_t>(op.staged);
  // Chunk memory is reused: all ranks must have drained the earlier chunk.
  if (chunk >= kChunks) {
    const std::uint64_t free_at = chunk - kChunks + 1;
    if (least(&RankFlags::drained, least_drained_, free_at) < free_at) return false;
  }
  if (op.source == BufferLocation::outside) op.pieces->stage(op.staged, block_.staging(rank_, chunk));
  ++op.staged;
  block_.flags(rank_).staged.store(chunk + 1);
  notify_others();
  return true;
}

void Collectives::set_sources(Operation& op, std::int64_t part) {
  const std::uint64_t chunk = op.first_chunk + static_cast<std::uint64_t>(part);
  for (int r = 0; r < size_; ++r) {
    Pieces::Source& source = op.sources[static_cast<std::size_t>(r)];
    if (source.image) source.data = block_.staging(r, chunk);
  }
}

bool Collectives::reduce_share(Operation& op) {
  if (!op.pieces->two_phases() || op.reduced == op.staged) return false;
  const std::uint64_t chunk = op.first_chunk + static_cast<std::uint64_t>(op.reduced);
  if (least(&RankFlags::staged, least_staged_, chunk + 1) < chunk + 1) return false;
  set_sources(op, op.reduced);
  {
    const SharedWorld::Visit visit(world_);
    if (visit.refused()) return false;
    PieceTally tally = tally_of(op);
    op.pieces->reduce_share(op.reduced, op.sources, block_.result(chunk), tally);
  }
  ++op.reduced;
  block_.flags(rank_).reduced.store(chunk + 1);
  notify_others();
  return true;
}

bool Collectives::take_part(Operation& op) {
  const bool sums = op.pieces->two_phases();
  if (op.taken == (sums ? op.reduced : op.staged)) return false;
  const std::uint64_t chunk = op.first_chunk + static_cast<std::uint64_t>(op.taken);
  const std::uint64_t ready = sums ? least(&RankFlags::reduced, least_reduced_, chunk + 1)
                                   : least(&RankFlags::staged, least_staged_, chunk + 1);
  if (ready < chunk + 1) return false;
  {
    const SharedWorld::Visit visit(world_);
    if (visit.refused()) return false;
    PieceTally tally = tally_of(op);
    if (sums) {
      op.pieces->take_shares(op.taken, block_.result(chunk), tally);
    } else {
      set_sources(op, op.taken);
      op.pieces->take(op.taken, op.sources, tally);
    }
  }
  ++op.taken;
  block_.flags(rank_).drained.store(chunk + 1);
  notify_others();
  return true;
}

}  // namespace starling::dist
