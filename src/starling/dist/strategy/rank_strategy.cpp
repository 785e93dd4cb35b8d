#include "starling/dist/strategy/rank_strategy.h"

#include "starling/base/error.h"
#include "starling/dist/strategy/state/flat_tensors.h"
#include "starling/graph/passes/partition/partitioner.h"

namespace starling::dist {

namespace {

// Rows of the group that a rank belongs to.
Piece group_rows(std::int64_t batch, int rank, int world, int groups) {
  check(batch >= 0, "[strategy] expected a batch of at least 0 rows, got {}", batch);
  return piece_of(batch, rank / (world / groups), groups);
}

}  // namespace

OpCounters operator+(OpCounters a, const OpCounters& b) {
  a.calls += b.calls;
  a.bytes_sent += b.bytes_sent;
  a.bytes_received += b.bytes_received;
  a.steps += b.steps;
  a.messages += b.messages;
  a.wait_ns += b.wait_ns;
  return a;
}

Piece RankStrategy::rows(std::int64_t batch) const {
  const Piece group = group_rows(batch, data_rank(), data_ranks(), groups());
  const int members = data_ranks() / groups();
  graph::PassContext context;
  context.world = members;
  context.rank = data_rank() % members;
  context.shards = shards();
  const Piece own = rows_of(group.size, context);
  return {group.begin + own.begin, own.size};
}

std::int64_t RankStrategy::program_rows(std::int64_t batch) const {
  return group_rows(batch, data_rank(), data_ranks(), groups()).size;
}

std::unique_ptr<runtime::Program> RankStrategy::build(const graph::Graph& global, const Container& container,
                                                      const runtime::BuildOptions& options) {
  return runtime::SingleStrategy().build(global, container, options);
}

void RankStrategy::begin(const TrainedState& state) {
  std::vector<NamedTensor> all = state.weights;
  all.insert(all.end(), state.buffers.begin(), state.buffers.end());
  all.insert(all.end(), state.optimizer.begin(), state.optimizer.end());
  broadcast_tensors(comm(), all, 0, "strategy.begin");
}

}  // namespace starling::dist
