#include <map>

#include "starling/graph/pass.h"
#include "starling/graph/passes/cross_entropy/cross_entropy_match.h"
#include "starling/graph/passes/prune.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/attrs/creation.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/registry.h"

// Cross entropy from logits: log-probabilities that are read only at labels are not computed, and the gradient is
// (softmax - onehot) times the incoming gradient of each row.
namespace starling::graph::passes {
namespace {

using Reader = CrossEntropyMatch::Reader;

class CrossEntropy {
 public:
  explicit CrossEntropy(const Graph& graph) : graph_(graph), rewriter_(graph), uses_(graph) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (!is_op(graph.node(id), "log_softmax")) continue;
      if (auto match = match_cross_entropy(graph, uses_, id)) plan(*match);
    }
  }

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const auto found = reader_at_.find(id);
      if (found == reader_at_.end())
        rewriter_.copy(id);
      else
        replace(*found->second.first, found->second.first->match.readers[found->second.second]);
    }
    return rewriter_.finish();
  }

 private:
  struct Planned {
    CrossEntropyMatch match;
    ValueId logits = -1;  // [rows, classes], in the graph being built like all below
    ValueId labels = -1;  // [rows]
    ValueId safe = -1;    // labels with a valid class in place of ignored ones
    ValueId ignored = -1;
    ValueId sum = -1, lse = -1, losses = -1, weights = -1, picked = -1;
  };

  void plan(const CrossEntropyMatch& match) {
    for (const auto& reader : match.readers) {
      if (!may_be_read_later(graph_, match.logits, graph_.value(match.logits).node, reader.node)) return;
    }
    planned_.push_back(std::make_unique<Planned>(Planned{match}));
    for (std::size_t i = 0; i < match.readers.size(); ++i)
      reader_at_[match.readers[i].node] = {planned_.back().get(), i};
  }

  const TensorType& type(ValueId id) { return rewriter_.to().value(id).type; }
  ValueId emit(std::string_view op, std::span<const ValueId> in, const Attrs& attrs = {}) {
    return rewriter_.to().node(rewriter_.emit(find_op(op), in, attrs, like_)).out[0];
  }
  ValueId emit(std::string_view op, std::initializer_list<ValueId> in, const Attrs& attrs = {}) {
    return emit(op, std::span(in.begin(), in.size()), attrs);
  }
  ValueId number(double value, DType dtype) { return emit("full", {}, op::FullAttrs{{}, value, dtype}); }
  ValueId shaped(ValueId id, const Shape& shape) {
    return type(id).shape == shape ? id : emit("reshape", {id}, op::ShapeAttrs{shape});
  }
  ValueId zero_where_ignored(const Planned& p, ValueId rows) {
    return p.ignored < 0 ? rows : emit("where", {p.ignored, number(0, type(rows).dtype), rows});
  }

  // Emits the loss at the first reader, where the labels exist.
  void begin(Planned& p) {
    if (p.lse >= 0) return;
    const auto& m = p.match;
    p.logits = shaped(rewriter_.map(m.logits), {m.rows, m.classes});
    p.labels = p.safe = shaped(rewriter_.map(m.labels), {m.rows});
    if (m.ignored) {
      p.ignored = emit("equal", {p.labels, number(static_cast<double>(*m.ignored), DType::i64)});
      p.safe = emit("where", {p.ignored, number(0, DType::i64), p.labels});
    }
    std::vector<ValueId> in{p.logits, p.safe};
    for (const auto& reader : m.readers) {
      if (reader.kind == Reader::Kind::nll) in.push_back(p.weights = row_weights(p, reader.weights));
    }
    const char* name = in.size() == 3 ? "cross_entropy_weighted" : "cross_entropy_sum";
    const NodeId made = rewriter_.emit(find_op(name), in, op::NoAttrs{}, like_);
    p.sum = rewriter_.to().node(made).out[0];
    p.lse = rewriter_.to().node(made).out[1];
    p.losses = rewriter_.to().node(made).out[2];
  }

  ValueId row_weights(const Planned& p, ValueId of_classes) {
    const DType dtype = type(p.logits).dtype;
    if (of_classes < 0) return emit("cast", {emit("logical_not", {p.ignored})}, op::CastAttrs{dtype});
    const ValueId wide = emit("broadcast_to", {rewriter_.map(of_classes)}, op::ShapeAttrs{type(p.logits).shape});
    return emit("label_pick", {wide, p.labels}, op::NllAttrs{*p.match.ignored});
  }

  // Log-probability at each label, [rows]. The loss of a row has it to the last digit, the difference of logit and
  // log-sum-exp, which are as large as the logits, has not; but a loss is weighted where there are weights.
  ValueId picked(Planned& p) {
    if (p.picked >= 0) return p.picked;
    if (p.weights < 0) return p.picked = zero_where_ignored(p, emit("neg", {p.losses}));
    const op::NllAttrs attrs = p.match.ignored ? op::NllAttrs{*p.match.ignored} : op::NllAttrs{};
    const ValueId at_label = emit("label_pick", {p.logits, p.labels}, attrs);
    return p.picked = zero_where_ignored(p, emit("sub", {at_label, p.lse}));
  }

  void replace(Planned& p, const Reader& reader) {
    like_ = reader.node;
    begin(p);
    const Node& node = graph_.node(reader.node);
    const Shape& shape = graph_.value(node.out[0]).type.shape;
    switch (reader.kind) {
      case Reader::Kind::pick: return name(node.out[0], shaped(picked(p), shape));
      case Reader::Kind::sum_rows:
        return name(node.out[0], shape.numel() == p.match.rows
                                     ? shaped(picked(p), shape)
                                     : emit("sum", {shaped(picked(p), reader.kept)}, node.attrs));
      case Reader::Kind::nll:
        name(node.out[0], p.sum);
        return name(node.out[1], emit("sum", {p.weights}, op::ReduceAttrs{}));
      case Reader::Kind::backward: return name(node.out[0], shaped(gradient(p, reader.rows), shape));
    }
  }

  ValueId gradient(Planned& p, ValueId old_rows) {
    const ValueId rows = rewriter_.map(old_rows);
    const DType dtype = type(p.logits).dtype;
    if (const ValueId scale = one_for_all(p, rows); scale >= 0)
      return emit("cross_entropy_backward", {p.logits, p.safe, p.lse, scale});
    const ValueId whole = type(rows).shape.numel() == p.match.rows
                              ? shaped(rows, {p.match.rows})
                              : emit("broadcast_to", {shaped(rows, {})}, op::ShapeAttrs{{p.match.rows}});
    const ValueId weights = zero_where_ignored(p, emit("neg", {whole}));
    return emit("cross_entropy_weighted_backward", {p.logits, p.safe, weights, p.lse, number(1, dtype)});
  }

  // Common scale of the gradient if all rows share it and none is ignored; else -1.
  ValueId one_for_all(const Planned& p, ValueId rows) {
    if (p.ignored >= 0) return -1;
    if (const auto value = uniform_value(rewriter_.to(), rows)) return number(-*value, type(rows).dtype);
    while (is_op(rewriter_.to().maker(rows), "broadcast_to") || is_op(rewriter_.to().maker(rows), "reshape"))
      rows = rewriter_.to().maker(rows).in[0];
    return type(rows).shape.numel() == 1 ? emit("neg", {shaped(rows, {})}) : -1;
  }

  void name(ValueId old, ValueId made) {
    rewriter_.to().value(made).layouts = graph_.value(old).layouts;
    rewriter_.set(old, made);
  }

  const Graph& graph_;
  Rewriter rewriter_;
  Uses uses_;
  NodeId like_ = 0;
  std::vector<std::unique_ptr<Planned>> planned_;
  std::map<NodeId, std::pair<Planned*, std::size_t>> reader_at_;
};

Graph cross_entropy(const Graph& graph, const PassContext& context) {
  return prune(CrossEntropy(graph).run(), context);
}

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_cross_entropy(PassTable& table) {
  table.add({.name = "cross_entropy",
             .doc = "replace log-probabilities at labels by the loss of logits, forward and backward",
             .order = 1200,
             .run = passes::cross_entropy});
}

}  // namespace starling::graph
