#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "starling/base/function_ref.h"
#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/def/attrs/comm.h"
#include "starling/ops/def/sharding/halo.h"

namespace starling::graph {

// Splits a global program into one rank's part, along a mesh axis of `parts` pieces of which this rank holds [first,
// first + count). One piece per rank is ordinary data parallelism; several are logical shards: split values then exist
// once per piece in the local program, replicated ones once.
//
// A variable whose reads are marked partial in the global program holds this rank's terms of a sum: what is added and
// assigned to it stays such terms, and its readers reduce them. A partial value that some node needs reduced is so for
// all nodes that follow: no value is reduced twice. A value marked replicated is computed whole on every rank, from
// operands that are gathered for it.
//
// A variable whose reads are marked split in the global program is stored in pieces, this rank's alone: what is
// assigned to it becomes such pieces, updates are made on them, and partial gradients on the way there are scattered
// instead of reduced. If it is marked as gathered (ZeRO), any other node that reads it gets it whole, for as long as
// two further gathers take (pieces.cpp). Else nodes compute on the piece (tensor parallelism): the layouts of their
// results follow from their rules.
class Partitioner {
 public:
  struct Mesh {
    int parts = 1;
    int first = 0;
    int count = 1;
    bool ordered = false;  // reduce by ordered_sum over the shards, not by all_reduce
    std::string order = "shard";
    Symbol group{};  // of the collectives put in
    // Results are whole on every rank, and values have no layouts afterwards: the program is cut along another axis
    // next.
    bool whole_results = false;
    std::size_t bucket_bytes = 0;  // of values that are gathered together for their use
    bool height = false;           // pictures of the inputs, [n, c, rows, …], are cut along their rows (windows.cpp)
    // Not empty: pieces are rounds, all made by this rank, one after the other, of what the `parts` ranks of `group`
    // gather of a batch (rounds.cpp). "turns": the rows of one rank after the other; "shares": a share of every rank's.
    std::string rounds{};
    int rank = 0;  // of this rank in the group; of rounds
    // Logical shards of the program have been cut along this group before, and their sums are on every rank: all that
    // is left is state in pieces (ordered_pieces.cpp). Nothing is reduced any more, as its bits would depend on the
    // ranks.
    bool shards_done = false;
  };

  Partitioner(const Graph& global, Mesh mesh, std::vector<Layout> inputs);
  Graph run();

  // Form in which run() left a value of the program that was given, for reports on layouts.
  struct Outcome {
    Layout layout;       // as it was made; terms may have been reduced since
    ValueId local = -1;  // in the result
  };
  Outcome outcome(ValueId given) const;

  // After run() in rounds: by round, the exchanges that begin it and those that end it.
  struct RoundEnds {
    std::vector<NodeId> begins, ends;
  };
  const std::vector<RoundEnds>& rounds() const { return round_ends_; }

  // Nodes that took whole operands where some were split: their ops have no rule for these pieces.
  struct Fallback {
    std::string op, scope;
    Layout layout;    // of the operand
    TensorType from;  // type of the operand, `to` that of the result, in the program that was given
    TensorType to;
  };
  const std::vector<Fallback>& fallbacks() const { return fallbacks_; }

 private:
  using Pieces = SmallVector<ValueId, 2>;  // one per own piece; a single one if replicated

  void node(NodeId id);
  void source(NodeId id);
  bool keep_terms(NodeId id);
  bool compute_whole(NodeId id);
  bool keep_pieces(NodeId id);
  void read_pieces(NodeId id, Layout layout);
  void find_wishes();
  void wish(const Node& node);
  bool takes_pieces(const Node& node) const;
  ShardRule rule_of(NodeId id);
  void note_fallback(NodeId id, const ShardRule& rule);
  bool scatter_operands(const Node& node, const ShardRule& rule);
  bool can_scatter(ValueId value, int dim, std::int64_t blocks) const;
  void scatter(ValueId value);
  op::PiecesAttrs exchange_of(ValueId value, std::int64_t rows) const;
  bool fits_pieces(const Node& node, const std::vector<bool>& state) const;
  void plan_gathers();
  std::vector<ValueId> gathered_with(ValueId value) const;
  Pieces gather_pieces(ValueId value, NodeId like);
  void gather_together(std::span<const ValueId> values, NodeId after, NodeId like);
  bool is_stored_whole(ValueId value) const;
  void note_use(std::span<const ValueId> operands, NodeId user);
  bool across_other_axis(NodeId id);
  void input(NodeId id);
  void distribute(NodeId id, const ShardRule& rule, std::int64_t blocks = 0);
  void distribute(NodeId id, const ShardRule& rule, std::int64_t blocks, const Attrs& attrs);
  bool activate_sum(NodeId id, const ShardRule& rule);
  void share_update(NodeId id);
  bool merge_blocks(NodeId id);
  bool part_blocks(NodeId id);
  bool keep_major(NodeId id);
  bool take_block(NodeId id);
  bool put_block(NodeId id);
  std::int64_t common_blocks(const Node& node, const ShardRule& rule) const;
  bool is_without_rows(const Node& node, const ShardRule& rule, int part) const;
  SmallVector<ValueId, 2> stand_ins(NodeId id, const ShardRule& rule, std::span<const ValueId> operands, int part);
  std::int64_t averaged_rows(const Node& node, const ShardRule& rule) const;
  Attrs local_attrs(const Node& node, const Attrs& attrs, const ShardRule& rule, int part, std::int64_t blocks) const;
  Shape local_shape(const Shape& global, Layout layout, int part, std::int64_t blocks = 0) const;
  Pieces as(ValueId value, Layout wanted, std::int64_t blocks);
  Pieces replicate(ValueId value, NodeId like);
  Pieces terms_of(ValueId value, NodeId like);
  Pieces among_zeros(ValueId value, NodeId like);
  Pieces reduced(Pieces terms, ReduceOp reduce, NodeId like, const std::string& name, std::int64_t rows);
  Pieces averaged(Pieces terms, NodeId like, const std::string& name, std::int64_t rows);
  ValueId times(ValueId value, double factor, NodeId like);
  std::string label_of(ValueId value) const;
  ValueId emit(std::string_view op, std::initializer_list<ValueId> in, const Attrs& attrs, NodeId like);
  ValueId reshaped(ValueId value, const Shape& shape, NodeId like);
  ValueId with_first(ValueId value, int dim, std::int64_t blocks, NodeId like);
  ValueId with_first_back(ValueId value, const Shape& shape, int dim, std::int64_t blocks, NodeId like);
  Pieces gathered(ValueId value, NodeId like);
  Pieces scattered(ValueId value, int dim, std::int64_t blocks);
  Pieces resplit(ValueId value, int dim, std::int64_t blocks);
  std::string_view way_to_pieces(ValueId value, Layout wanted, std::int64_t blocks) const;
  Pieces cut(ValueId whole, const Shape& shape, int dim, std::int64_t blocks, NodeId like);
  using Local = FunctionRef<TensorList(std::span<const Tensor>)>;
  SmallVector<ValueId, 4> local(std::initializer_list<ValueId> in, NodeId like, Local function);
  ValueId whole(ValueId value) { return as(value, Layout::replicate(), 0)[0]; }
  bool take_rows(ValueId input, ValueId given);
  bool look_through_windows(NodeId id);
  bool convolve_rows(NodeId id);
  bool place_rows(NodeId id);
  bool pool_rows(NodeId id);
  bool has_split_rows(ValueId value) const;
  std::optional<op::HaloAttrs> windows_over(ValueId named, const Shape& picture, std::int64_t count,
                                            op::HaloAttrs windows) const;
  ValueId with_borders(ValueId value, const op::HaloAttrs& windows);
  ValueId rows_of_whole(ValueId picture, const op::HaloAttrs& windows);
  ValueId to_owners(ValueId made, const op::HaloAttrs& windows);
  ValueId taken_rows(ValueId value, const Piece& has, const Piece& wanted);
  ValueId laid_rows(ValueId value, const Piece& has, const Piece& wanted);
  Shape seen_shape(Shape picture, const op::HaloAttrs& windows) const;
  template <class A>
  bool convolve(NodeId id);
  template <class A>
  bool convolve_for_weight(NodeId id);
  template <class A>
  bool convolve_back(NodeId id);
  bool convolve_locally(NodeId id);
  op::HaloAttrs positions_of_rows(ValueId named, int dim, std::int64_t rows, std::int64_t columns) const;
  ValueId positions_to_rows(ValueId value, int dim, std::int64_t rows);
  void set_positions(ValueId old, ValueId made, int dim, std::int64_t rows);
  bool merge_rows(NodeId id);
  bool unfold_rows(NodeId id);
  bool fold_rows(NodeId id);
  struct Blurred {
    op::HaloAttrs windows;
    Piece seen, inside;  // rows that windows look at, and those of them in the picture
  };
  template <class A>
  std::optional<Blurred> blurred(ValueId named, const Shape& picture, const A& attrs) const;
  bool blur(NodeId id);
  bool blur_back(NodeId id);
  bool pool_largest(NodeId id);
  bool pool_largest_back(NodeId id);
  ValueId moved_down(ValueId places, const Shape& picture, std::int64_t rows);
  template <class A>
  bool pool_means(NodeId id);
  bool pool_means_back(NodeId id);
  Piece own_piece(std::int64_t size) const;
  ValueId times_rows(ValueId value, const std::vector<double>& factors);
  double share_of_rows(const Shape& picture) const;
  bool pool_all(NodeId id);
  bool pool_all_back(NodeId id);
  bool look_up_range(NodeId id);
  void embed(NodeId id);
  void embed_backward(NodeId id);
  void pick_labels(NodeId id);
  void cross_entropy(NodeId id);
  void cross_entropy_backward(NodeId id);
  void set(ValueId old, ValueId made, Layout layout);
  bool is_of_inputs(ValueId value) const {
    return layouts_[static_cast<std::size_t>(value)].is_split() && of_inputs_[static_cast<std::size_t>(value)];
  }
  void outputs();
  void forget_layouts();
  void forget_marks();
  bool after_shards(NodeId id);
  bool scatters_in_order(NodeId id) const;
  void scatter_in_order(NodeId id);
  void begin_rounds();
  void round_node(NodeId id);
  bool enter_rounds(NodeId id);
  bool leave_rounds(NodeId id);
  bool draw_in_blocks(NodeId id, const ShardRule& rule);
  bool reshape_rows(NodeId id);
  ShardRule across_rounds(const Node& node) const;
  std::int64_t round_blocks(const Node& node, const ShardRule& rule) const;
  Pieces summed(const Pieces& terms, ReduceOp reduce, NodeId like);
  Pieces joined_rounds(ValueId value, NodeId like);
  void restore_layouts();
  Pieces& pieces(ValueId value) { return pieces_[static_cast<std::size_t>(value)]; }
  const Shape& shape_of(ValueId value) const { return global_.value(value).type.shape; }
  Layout& layout_of(ValueId value) { return layouts_[static_cast<std::size_t>(value)]; }
  std::int64_t& blocks(ValueId value) { return blocks_[static_cast<std::size_t>(value)]; }
  std::int64_t blocks(ValueId value) const { return blocks_[static_cast<std::size_t>(value)]; }

  std::vector<ValueId> given_;  // by value of the program that was given: its value in the one without fused ops
  Graph global_;
  Mesh mesh_;
  std::vector<Layout> inputs_;
  Rewriter rewriter_;
  std::vector<Layout> layouts_;
  std::vector<Layout> made_;  // layouts as values were made
  std::vector<Fallback> fallbacks_;
  std::vector<Pieces> pieces_;
  // By split value: number of equal blocks in which the dimension lies, each split by itself; 0: split as a whole. Time
  // steps of sequences with the batch second become such blocks when both dimensions are merged; so do queries, keys
  // and values that one weight makes.
  std::vector<std::int64_t> blocks_;
  std::vector<std::int64_t> rows_;  // of averages: rows averaged over all pieces; pieces without rows do not count
  std::vector<Pieces> whole_;       // replicated forms of values, so that each is gathered once
  // Pieces that were exchanged, by value, dimension and blocks, so that each is so once.
  std::map<std::tuple<ValueId, int, std::int64_t>, ValueId> exchanged_;
  // Rows with borders, by value and windows, so that they are exchanged once; and the windows in which places of
  // largest elements were found, by the value of these places.
  std::map<std::tuple<ValueId, std::int64_t, std::int64_t, std::int64_t, std::int64_t, double>, ValueId> borders_;
  std::map<ValueId, op::HaloAttrs> windows_of_places_;
  std::set<std::int64_t> kept_;  // variables that hold this rank's terms
  std::vector<bool> terms_;      // by value: made by adding to such a variable
  std::vector<bool> of_inputs_;  // by split value: along rows of the inputs, not along a variable that is split

  struct Gather {
    int number = -1;  // counted from 0 over all of them; -1: none yet
    Pieces whole{};
  };
  std::map<std::int64_t, Layout> stored_;  // variables of which this rank stores a piece
  std::vector<bool> state_;                // by value: pieces of state that is gathered where it is used
  std::vector<Layout> wished_;             // by value: split if it ends in stored pieces
  std::vector<Gather> gathers_;            // by value: the latest gather of its pieces
  std::vector<NodeId> last_use_;           // by number of the gather: the latest node that reads a result
  std::map<ValueId, int> gathered_as_;     // results of gathers, and their numbers
  struct WholeUse {
    NodeId node;
    ValueId value;
  };
  std::vector<WholeUse> whole_uses_;  // of pieces of state, in the order of the program
  std::size_t together_ = 0;          // bytes that are gathered at once
  std::vector<std::vector<NodeId>> users_;
  std::vector<Layouts> marked_;  // of a program that is cut again along its group: layouts that values had
  std::vector<bool> of_batch_;   // of rounds, by value: made from the arguments
  std::vector<RoundEnds> round_ends_;
  NodeId now_ = 0;  // node that is being cut
};

// Rows of a batch dimension that belong to a rank.
Piece rows_of(std::int64_t size, const PassContext& context);

}  // namespace starling::graph
