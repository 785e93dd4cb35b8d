#pragma once

#include <initializer_list>
#include <vector>

#include "starling/dist/comm/algorithms/schedule.h"

namespace starling::dist {

// Boundaries of pieces, in elements: one more than there are pieces.
using Cuts = std::vector<std::int64_t>;

// Splits count elements into `pieces` pieces whose sizes differ by one at most.
Cuts even_cuts(std::int64_t count, int pieces);

// Pieces of a call with one piece per rank (all_gather, reduce_scatter, gather, scatter).
Cuts cuts_of(const ScheduleRequest& request);

// Ordered subset of ranks, and the index of this rank in it.
struct Team {
  std::vector<int> ranks;
  int index = 0;

  int size() const { return static_cast<int>(ranks.size()); }
  int operator[](int i) const { return ranks[static_cast<std::size_t>(i)]; }
};

Team everyone(const ScheduleRequest& request);

// Builds schedules: counts are in elements, rounds are numbered, empty blocks are skipped.
class ScheduleBuilder {
 public:
  explicit ScheduleBuilder(const ScheduleRequest& request) : element_(request.element_bytes) {}

  Block block(ScheduleBuffer buffer, std::int64_t begin, std::int64_t end) const {
    return {buffer, begin * element_, (end - begin) * element_};
  }
  Block piece(ScheduleBuffer buffer, const Cuts& cuts, int k) const {
    return block(buffer, cuts[static_cast<std::size_t>(k)], cuts[static_cast<std::size_t>(k) + 1]);
  }
  Block scratch(std::int64_t elements);  // allocates a new scratch block

  void send(int round, int peer, const Block& block);
  void recv(int round, int peer, const Block& block);
  void combine(int round, const Block& to, std::vector<Block> from, bool completes);
  void copy(int round, const Block& to, const Block& from) { combine(round, to, {from}, false); }
  void copy_first(const Block& to, const Block& from);

  void pad(int rounds);  // appends idle rounds, so that all ranks have equally many
  Schedule take() { return std::move(schedule_); }

 private:
  Round& round(int number);

  Schedule schedule_;
  std::int64_t element_;
};

inline Block part(const Block& block, std::int64_t offset, std::int64_t bytes) {
  return {block.buffer, block.offset + offset, bytes};
}

int log2_ceil(int n);

}  // namespace starling::dist
