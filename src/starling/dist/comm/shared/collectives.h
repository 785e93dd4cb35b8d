#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "starling/dist/comm/shared/exchange.h"
#include "starling/dist/comm/shared/group_block.h"
#include "starling/dist/comm/shared/pieces.h"
#include "starling/dist/comm/shared/shared_world.h"

namespace starling::dist {

// One rank's collectives in one group. Calls are posted to the slots of the group's block; once all ranks have arrived,
// each takes one of three paths, the same on all ranks:
//   small    all data lies in the slot: each rank computes its own result
//   direct   all buffers are reachable: waiting ranks run units of the exchange, on any rank's memory
//   staged   chunk by chunk through staging memory, each rank for its own buffers; one such operation at a time
class Collectives {
 public:
  Collectives(SharedWorld& world, GroupBlock block, int rank, int size);

  // True if the slot of this sequence number is free on all ranks.
  bool has_room(std::uint64_t sequence);
  // Requires the world's mutex, like step.
  void post(const Call& call, std::uint64_t epoch);
  bool step();
  void finish(std::uint64_t sequence);  // advances one operation that all have come to, whatever the others do
  bool completed(std::uint64_t sequence) const;

  // First collective not yet over; 0: none.
  std::uint64_t unfinished() const { return oldest_ < next_ ? oldest_ : 0; }
  std::vector<int> not_arrived(std::uint64_t sequence) const;
  std::vector<int> not_finished(std::uint64_t sequence) const;
  // Splits stay open until end_split: new groups are read from the slot until then.
  bool opened_split(std::uint64_t sequence) const { return operation(sequence).way == Way::small; }
  void end_split(std::uint64_t sequence);

 private:
  enum class Way { unknown, small, direct, staged, over };
  struct Operation {
    Call call;
    std::vector<std::int64_t> counts;
    std::vector<std::uint32_t> shards;
    std::vector<Pieces::Source> sources;
    std::vector<const void*> operands;
    std::optional<Pieces> pieces;
    Way way = Way::over;
    BufferLocation source = BufferLocation::nowhere;  // of this rank
    int arrived = 0;                                  // all ranks below this number have arrived
    std::uint64_t first_chunk = 0;
    std::int64_t parts = 0, staged = 0, reduced = 0, taken = 0;
    std::vector<Post> posts;  // of all ranks, with addresses valid in this process
    std::unique_ptr<Exchange> exchange;
  };

  Operation& operation(std::uint64_t sequence) { return operations_[sequence % kSharedSlots]; }
  const Operation& operation(std::uint64_t sequence) const { return operations_[sequence % kSharedSlots]; }
  PieceTally tally_of(const Operation& op) const {
    return {block_.traffic(), rank_, op.call.op, block_.phases(op.call.sequence)};
  }
  BufferLocation place_source(const Call& call, Arrival& arrival, SharedPost& post);
  BufferLocation place_target(const Call& call, SharedPost& post) const;

  bool advance(Operation& op);
  bool arrived(Operation& op);
  bool open(Operation& op);
  bool agreed(const Operation& op);
  Way way_of(const Operation& op) const;
  void find_sources(Operation& op);
  bool take_small(Operation& op);
  bool reduce_small(Operation& op);
  void open_direct(Operation& op);
  bool run_unit(Operation& op);
  void open_staged(Operation& op);
  bool stage(Operation& op);
  bool stage_in(Operation& op);
  bool reduce_share(Operation& op);
  bool take_part(Operation& op);
  bool sources_at_rest(const Operation& op) const;
  void set_sources(Operation& op, std::int64_t part);
  void finish_prefix();
  void publish_finished();
  void notify_others();

  // Minimum of a flag over all ranks, cached in `known`: flags only grow.
  std::uint64_t least(std::atomic<std::uint64_t> RankFlags::*flag, std::uint64_t& known, std::uint64_t wanted) const;

  SharedWorld& world_;
  GroupBlock block_;
  const int rank_, size_;
  std::array<Operation, kSharedSlots> operations_;
  std::uint64_t oldest_ = 1, next_ = 1;  // [oldest_, next_): operations possibly not over
  std::uint64_t published_ = 0;          // last operation announced to the others as over
  std::uint64_t staging_ = 0;            // sequence number of the operation using the staging memory; 0: none
  std::uint64_t next_chunk_ = 0;         // next chunk number in the group's stream
  std::uint64_t least_finished_ = 0;
  mutable std::uint64_t least_staged_ = 0, least_reduced_ = 0, least_drained_ = 0;
};

}  // namespace starling::dist
