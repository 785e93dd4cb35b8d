#include <algorithm>
#include <optional>

#include "starling/graph/pass.h"
#include "starling/graph/passes/prune.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/slice.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/registry.h"

namespace starling::graph::passes {
namespace {

// Gradients of the slices of one tensor are padded with zeros and added. If the slices cover the whole, this is a
// concatenation.
class Rejoin {
 public:
  explicit Rejoin(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!is_op(graph_.node(id), "add") || !join(id)) rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  struct Piece {
    std::int64_t begin, count;
    ValueId value;
  };
  struct Pieces {
    op::SliceBackwardAttrs like;
    std::vector<Piece> list;
  };
  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }

  // Collects the slices below a tree of additions; false if anything else is added.
  bool collect(ValueId value, Pieces& found) const {
    const Node& node = graph_.maker(value);
    if (is_op(node, "add")) {
      return shape(node.in[0]) == shape(node.in[1]) && collect(node.in[0], found) && collect(node.in[1], found);
    }
    if (!is_op(node, "slice_backward")) return false;
    auto like = node.attrs.as<op::SliceBackwardAttrs>();
    like.axis = normalize_axis(like.axis, like.shape.rank(), "slice_backward");
    if (found.list.empty()) found.like = like;
    if (like.step != 1 || like.axis != found.like.axis || like.shape != found.like.shape) return false;
    const op::SliceRange range =
        op::slice_range({like.axis, like.begin, like.end, 1}, like.shape[static_cast<int>(like.axis)]);
    found.list.push_back({range.begin, range.count, node.in[0]});
    return true;
  }

  // Sorts the pieces; true if they are contiguous and cover the whole.
  static bool make_up_the_whole(Pieces& pieces) {
    std::sort(pieces.list.begin(), pieces.list.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    std::int64_t at = 0;
    for (const Piece& piece : pieces.list) {
      if (piece.begin != at) return false;
      at += piece.count;
    }
    return at == pieces.like.shape[static_cast<int>(pieces.like.axis)];
  }

  bool join(NodeId id) {
    const Node& node = graph_.node(id);
    Pieces pieces;
    if (!collect(node.out[0], pieces) || !make_up_the_whole(pieces)) return false;
    std::vector<ValueId> from;
    for (const Piece& piece : pieces.list) from.push_back(piece.value);
    const bool wider = unmerge(from, pieces.like.axis);
    std::vector<ValueId> in;
    for (ValueId value : from) in.push_back(rewriter_.map(value));
    static const OpDef &concat_op = find_op("concat"), &reshape_op = find_op("reshape");
    NodeId made = rewriter_.emit(concat_op, in, op::AxisAttrs{pieces.like.axis}, id);
    if (wider) {
      const ValueId whole = rewriter_.to().node(made).out[0];
      made = rewriter_.emit(reshape_op, {&whole, 1}, op::ShapeAttrs{pieces.like.shape}, id);
    }
    const ValueId fresh = rewriter_.to().node(made).out[0];
    rewriter_.to().value(fresh).layouts = graph_.value(node.out[0]).layouts;
    rewriter_.set(node.out[0], fresh);
    rewriter_.stands_for(id, made);
    return true;
  }

  // Pieces whose last dimensions were merged before are joined unmerged, so that strided data is moved once.
  bool unmerge(std::vector<ValueId>& pieces, std::int64_t axis) const {
    const auto at = static_cast<int>(axis);
    std::vector<ValueId> before;
    for (ValueId value : pieces) {
      const Node& maker = graph_.maker(value);
      if (!is_op(maker, "reshape") || at != shape(value).rank() - 1) return false;
      const Shape &wide = shape(maker.in[0]), &merged = shape(value);
      if (wide.rank() <= merged.rank()) return false;
      for (int i = 0; i < at; ++i) {
        if (wide[i] != merged[i]) return false;
      }
      if (!before.empty()) {
        const Shape& first = shape(before[0]);
        if (first.rank() != wide.rank()) return false;
        for (int i = at + 1; i < wide.rank(); ++i) {
          if (wide[i] != first[i]) return false;
        }
      }
      before.push_back(maker.in[0]);
    }
    pieces = before;
    return true;
  }

  const Graph& graph_;
  Rewriter rewriter_;
};

// prune drops the slices and additions without readers.
Graph rejoin(const Graph& graph, const PassContext& context) { return prune(Rejoin(graph).run(), context); }

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_rejoin(PassTable& table) {
  table.add({.name = "rejoin",
             .doc = "lay the gradients of a tensor's pieces side by side instead of adding them up",
             .order = 900,
             .run = passes::rejoin});
}

}  // namespace starling::graph
