#pragma once

#include <map>
#include <vector>

#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"

namespace starling {

// Cuts a global program into the part of one rank, along one mesh axis of `parts` pieces of which this rank holds
// [first, first + count). One piece a rank is ordinary data parallelism; several are logical shards, and then what is
// split stands once per piece in the local program while what is replicated stands once.
class Partitioner {
 public:
  struct Mesh {
    int parts = 1;
    int first = 0;
    int count = 1;
    bool ordered = false;  // reduce by ordered_sum over the shards instead of all_reduce
    std::string order = "shard";
  };

  Partitioner(const Graph& global, Mesh mesh, std::vector<Placement> inputs);
  Graph run();

 private:
  using Pieces = SmallVector<ValueId, 2>;  // one an own piece; a single one where replicated

  void node(NodeId id);
  void source(NodeId id);
  void input(NodeId id);
  void distribute(NodeId id, const ShardRule& rule, std::int64_t blocks = 0);
  void share_update(NodeId id);
  bool merge_blocks(NodeId id);
  bool part_blocks(NodeId id);
  std::int64_t common_blocks(const Node& node, const ShardRule& rule) const;
  bool is_without_rows(const Node& node, const ShardRule& rule, int part) const;
  SmallVector<ValueId, 2> stand_ins(NodeId id, const ShardRule& rule, std::span<const ValueId> operands, int part);
  std::int64_t averaged_rows(const Node& node, const ShardRule& rule) const;
  Attrs local_attrs(const Node& node, const ShardRule& rule, int part) const;
  Shape local_shape(const Shape& global, Placement placement, int part) const;
  Pieces as(ValueId value, Placement wanted, std::int64_t blocks);
  Pieces replicate(ValueId value, NodeId like);
  Pieces reduced(Pieces terms, ReduceOp reduce, NodeId like, const std::string& name, std::int64_t rows);
  Pieces averaged(Pieces terms, NodeId like, const std::string& name, std::int64_t rows);
  Pieces blocks_as_columns(ValueId value, Shape& shape, NodeId like);
  ValueId reshaped(ValueId value, const Shape& shape, NodeId like);
  Pieces cut(ValueId whole, const Shape& shape, int dim, NodeId like);
  void outputs();
  Pieces& pieces(ValueId value) { return pieces_[static_cast<std::size_t>(value)]; }
  Placement& placed(ValueId value) { return placed_[static_cast<std::size_t>(value)]; }
  std::int64_t& blocks(ValueId value) { return blocks_[static_cast<std::size_t>(value)]; }
  std::int64_t blocks(ValueId value) const { return blocks_[static_cast<std::size_t>(value)]; }

  Graph global_;
  Mesh mesh_;
  std::vector<Placement> inputs_;
  Rewriter rewriter_;
  std::vector<Placement> placed_;
  std::vector<Pieces> pieces_;
  // Of values split by rows: in how many blocks of equal size they lie, each cut by itself; 0: they are cut as a whole.
  // Time steps of sequences whose samples are the second dimension become such blocks where both are merged.
  std::vector<std::int64_t> blocks_;
  std::vector<std::int64_t> rows_;  // of averages: how many rows were shared out; pieces without any do not count
  std::vector<Pieces> whole_;       // values made replicated on the way, so that each is reduced once
};

// The rows of a batch dimension that fall to a rank.
Piece rows_of(std::int64_t size, const PassContext& context);

}  // namespace starling
