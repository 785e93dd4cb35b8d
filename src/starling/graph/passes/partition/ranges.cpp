// Look-ups in dimensions that are split: every rank answers for its own range of indices. Rows of an embedding's table,
// classes of a loss.
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/graph/splice.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/embedding.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/select.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/attrs/embedding.h"
#include "starling/ops/def/attrs/index_range.h"
#include "starling/ops/def/attrs/loss.h"

namespace starling::graph {
namespace {

constexpr std::int64_t kElsewhere = -1;  // label that the local op ignores

Tensor number(std::int64_t value) { return full({}, static_cast<double>(value), DType::i64); }

// Indices counted from the begin of a range, and which of them are in it.
struct InRange {
  Tensor places;
  Tensor inside;
};

InRange in_range(const Tensor& indices, const Piece& own) {
  const Tensor places = sub(indices, number(own.begin));
  return {places, logical_and(greater_equal(places, number(0)), less(places, number(own.size)))};
}

Tensor with_ones(const Tensor& x, int rank) {
  Shape shape = x.shape();
  while (shape.rank() < rank) shape.push_back(1);
  return reshape(x, shape);
}

// Rows where the index is in the range, else zeros, whatever the row is.
Tensor kept(const InRange& range, const Tensor& rows) {
  return where(with_ones(range.inside, rows.rank()), rows, full({}, 0.0, rows.dtype()));
}

Tensor safe(const InRange& range) { return where(range.inside, range.places, number(0)); }

Tensor own_labels(const Tensor& labels, const Piece& own, std::int64_t ignored) {
  const InRange range = in_range(labels, own);
  const Tensor counts = logical_and(range.inside, not_equal(labels, number(ignored)));
  return where(counts, range.places, number(kElsewhere));
}

Tensor column(const Tensor& x) { return reshape(x, {x.shape()[0], 1}); }

constexpr double kNone = -std::numeric_limits<double>::infinity();

}  // namespace

// Ops of this rank alone, written as a function of its pieces.
SmallVector<ValueId, 4> Partitioner::local(std::initializer_list<ValueId> in, NodeId like, Local function) {
  Types types;
  for (ValueId id : in) types.push_back(rewriter_.to().value(id).type);
  return splice(rewriter_, traced({types.data(), types.size()}, function), {in.begin(), in.size()}, like);
}

// True if the node looks up indices in a dimension that is split.
bool Partitioner::look_up_range(NodeId id) {
  const Node& node = global_.node(id);
  if (mesh_.ordered || node.in.empty()) return false;
  const auto split = [&](std::size_t i, int dim) {
    return layout_of(node.in[i]).is_split(dim) && !state_[static_cast<std::size_t>(node.in[i])] &&
           blocks(node.in[i]) == 0;
  };
  if (is_op(node, "embedding") && split(1, 0) && !layout_of(node.in[0]).is_split()) return embed(id), true;
  if (is_op(node, "embedding_backward") && !layout_of(node.in[0]).is_split() && !layout_of(node.in[1]).is_split()) {
    const Layout wished = wished_[static_cast<std::size_t>(node.out[0])];
    if (wished.is_split(0) && wished.blocks == 1 && !wished.gathered) return embed_backward(id), true;
  }
  if (is_op(node, "label_pick") && split(0, 1)) return pick_labels(id), true;
  if ((is_op(node, "cross_entropy_sum") || is_op(node, "cross_entropy_weighted")) && split(0, 1))
    return cross_entropy(id), true;
  if ((is_op(node, "cross_entropy_backward") || is_op(node, "cross_entropy_weighted_backward")) && split(0, 1))
    return cross_entropy_backward(id), true;
  return false;
}

// Rows of the range, zeros for all others: terms of the result.
void Partitioner::embed(NodeId id) {
  const Node& node = global_.node(id);
  const std::int64_t all = global_.value(node.in[1]).type.shape[0];
  const Piece own = piece_of(all, mesh_.first, mesh_.parts);
  const TensorType& out = global_.value(node.out[0]).type;
  const auto made = local({whole(node.in[0]), pieces(node.in[1])[0]}, id, [&](std::span<const Tensor> in) {
    if (own.size == 0) return TensorList{full(out.shape, 0.0, out.dtype)};
    const InRange range = in_range(op::index_range(in[0], {.size = all}), own);
    const Tensor rows = embedding(safe(range), in[1]);
    return TensorList{kept(range, rows)};
  });
  set(node.out[0], made[0], Layout::partial());
}

// Rows of the range alone, from all entries.
void Partitioner::embed_backward(NodeId id) {
  const Node& node = global_.node(id);
  const auto& a = node.attrs.as<op::EmbeddingBackwardAttrs>();
  const Piece own = piece_of(a.rows, mesh_.first, mesh_.parts);
  const bool pads = a.padding >= own.begin && a.padding < own.begin + own.size;
  Shape shape = global_.value(node.out[0]).type.shape;
  shape[0] = own.size;
  const auto made = local({whole(node.in[0]), whole(node.in[1])}, id, [&](std::span<const Tensor> in) {
    if (own.size == 0) return TensorList{full(shape, 0.0, in[0].dtype())};
    const InRange range = in_range(in[1], own);
    const op::EmbeddingBackwardAttrs attrs{.rows = own.size, .padding = pads ? a.padding - own.begin : -1};
    return TensorList{op::embedding_backward(kept(range, in[0]), safe(range), attrs)};
  });
  set(node.out[0], made[0], Layout::split(0));
}

void Partitioner::pick_labels(NodeId id) {
  const Node& node = global_.node(id);
  const std::int64_t ignored = node.attrs.as<op::NllAttrs>().ignore_index;
  const std::int64_t classes = global_.value(node.in[0]).type.shape[1];
  const Piece own = piece_of(classes, mesh_.first, mesh_.parts);
  const TensorType& out = global_.value(node.out[0]).type;
  const auto made = local({pieces(node.in[0])[0], whole(node.in[1])}, id, [&](std::span<const Tensor> in) {
    if (own.size == 0) return TensorList{full(out.shape, 0.0, out.dtype)};
    const Tensor labels = op::index_range(in[1], {.size = classes,
                                                  .ignores = true,
                                                  .ignore_index = ignored,
                                                  .who = Symbol("label_pick"),
                                                  .what = Symbol("labels")});
    return TensorList{op::label_pick(in[0], own_labels(labels, own, ignored), kElsewhere)};
  });
  set(node.out[0], made[0], Layout::partial());
}

// Largest logit, sum of exponentials and logit of the label over the classes of all ranks: three exchanges of a number
// a row; no rank ever has all logits.
void Partitioner::cross_entropy(NodeId id) {
  const Node& node = global_.node(id);
  const bool weighted = is_op(node, "cross_entropy_weighted");
  const std::int64_t classes = global_.value(node.in[0]).type.shape[1];
  const Piece own = piece_of(classes, mesh_.first, mesh_.parts);
  const ValueId logits = pieces(node.in[0])[0], labels = whole(node.in[1]);
  const auto reduce = [&](ValueId term, ReduceOp how, const char* what) {
    return reduced({term}, how, id, fmt::format("{} of {}", what, label_of(node.out[0])), mesh_.parts)[0];
  };
  const auto none = [&](const Tensor& rows, double value) { return full({rows.shape()[0]}, value, rows.dtype()); };
  const ValueId largest =
      reduce(local({logits}, id,
                   [&](std::span<const Tensor> in) {
                     return TensorList{own.size == 0 ? none(in[0], kNone) : max(in[0], {.axes = {1}})};
                   })[0],
             ReduceOp::max, "largest");
  const auto terms = local({logits, labels, largest}, id, [&](std::span<const Tensor> in) {
    if (own.size == 0) return TensorList{none(in[0], 0), none(in[0], 0)};
    const Tensor exponentials = exp(sub(in[0], column(in[2])));
    const Tensor known = op::index_range(
        in[1], {.size = classes, .who = Symbol("cross_entropy"), .what = Symbol("labels"), .place = Symbol("in row")});
    const Tensor picked = op::label_pick(in[0], own_labels(known, own, kElsewhere), kElsewhere);
    return TensorList{sum(exponentials, {.axes = {1}}), picked};
  });
  const ValueId total = reduce(terms[0], ReduceOp::sum, "exponentials");
  const ValueId picked = reduce(terms[1], ReduceOp::sum, "labels");
  const auto results = [&](std::span<const Tensor> in) {
    const Tensor lse = add(log(in[0]), in[1]);
    Tensor losses = sub(lse, in[2]);
    if (in.size() == 4) losses = mul(losses, in[3]);
    return TensorList{sum(losses), lse, losses};
  };
  const auto made = weighted ? local({total, largest, picked, whole(node.in[2])}, id, results)
                             : local({total, largest, picked}, id, results);
  for (std::size_t i = 0; i < node.out.size(); ++i) set(node.out[i], made[i], Layout::replicate());
}

void Partitioner::cross_entropy_backward(NodeId id) {
  const Node& node = global_.node(id);
  const bool weighted = is_op(node, "cross_entropy_weighted_backward");
  const Piece own = piece_of(global_.value(node.in[0]).type.shape[1], mesh_.first, mesh_.parts);
  const std::size_t lse = weighted ? 3 : 2;
  const auto gradient = [&](std::span<const Tensor> in) {
    if (own.size == 0) return TensorList{in[0]};
    const Tensor p = exp(sub(in[0], column(in[2]))), ones = full(in[1].shape(), 1.0, in[0].dtype());
    const Tensor hits = op::label_place(ones, own_labels(in[1], own, kElsewhere), own.size, kElsewhere);
    const Tensor each = mul(sub(p, hits), in[3]);
    return TensorList{in.size() == 5 ? mul(each, column(in[4])) : each};
  };
  const ValueId logits = pieces(node.in[0])[0], labels = whole(node.in[1]), sums = whole(node.in[lse]),
                scale = whole(node.in[lse + 1]);
  const auto made = weighted ? local({logits, labels, sums, scale, whole(node.in[2])}, id, gradient)
                             : local({logits, labels, sums, scale}, id, gradient);
  set(node.out[0], made[0], Layout::split(1));
}

}  // namespace starling::graph
