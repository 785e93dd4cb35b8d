#include <algorithm>
#include <map>

#include "starling/graph/pass.h"
#include "starling/graph/passes/attention/attention_match.h"
#include "starling/graph/passes/prune.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/attrs/creation.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/registry.h"

// Replaces written-out attention by the op that stores no scores. Rows that see no key become zeros, as that op
// defines, where the softmax was undefined.
namespace starling::graph::passes {
namespace {

class Attention {
 public:
  explicit Attention(const Graph& graph) : graph_(graph), rewriter_(graph), uses_(graph) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (!is_op(graph.node(id), "softmax")) continue;
      if (auto match = match_attention(graph, uses_, id)) plan(*match);
    }
  }

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (const auto match = backward_at_.find(id); match != backward_at_.end()) emit_backward(*match->second);
      if (const auto match = forward_at_.find(id); match != forward_at_.end())
        emit_forward(*match->second);
      else if (const auto gradient = gradient_at_.find(id); gradient != gradient_at_.end())
        name_gradient(*gradient->second.first, gradient->second.second);
      else
        rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  struct Planned {
    AttentionMatch match;
    ValueId q = -1, k = -1, v = -1, mask = -1, y = -1, lse = -1;  // in the graph being built
    NodeId backward = -1;
  };

  NodeId maker(ValueId id) const { return graph_.value(id).node; }

  void plan(const AttentionMatch& match) {
    const NodeId y = maker(match.y);
    NodeId first = match.backward_at;
    for (const auto& gradient : match.gradients)
      first = first < 0 ? maker(gradient.value) : std::min(first, maker(gradient.value));
    if (first >= 0 && first < y) return;
    for (const ValueId operand : {match.q.value, match.k.value}) {
      if (!may_be_read_later(graph_, operand, match.scores, y)) return;
    }
    planned_.push_back(std::make_unique<Planned>(Planned{match}));
    Planned& made = *planned_.back();
    forward_at_[y] = &made;
    if (!match.gradients.empty()) backward_at_[first] = &made;
    for (std::size_t i = 0; i < match.gradients.size(); ++i) gradient_at_[maker(match.gradients[i].value)] = {&made, i};
  }

  ValueId emit(std::string_view op, std::initializer_list<ValueId> in, const Attrs& attrs, NodeId like) {
    return rewriter_.to().node(rewriter_.emit(find_op(op), {in.begin(), in.size()}, attrs, like)).out[0];
  }

  ValueId transposed(ValueId id, NodeId like) {
    Shape order;
    const int rank = rewriter_.to().value(id).type.shape.rank();
    for (int i = 0; i < rank; ++i) order.push_back(i);
    std::swap(order[rank - 1], order[rank - 2]);
    return emit("transpose", {id}, op::TransposeAttrs{order}, like);
  }

  ValueId value_of(const Multiplicand& from, NodeId like) {
    const ValueId id = rewriter_.map(from.value);
    return from.transposed ? transposed(id, like) : id;
  }

  void emit_forward(Planned& p) {
    const NodeId like = maker(p.match.y);
    p.q = value_of(p.match.q, like);
    p.k = value_of(p.match.k, like);
    p.v = value_of(p.match.v, like);
    std::vector<ValueId> in{p.q, p.k, p.v};
    if (p.match.mask >= 0) {
      p.mask = rewriter_.map(p.match.mask);
      if (p.match.mask_hides) p.mask = emit("logical_not", {p.mask}, op::NoAttrs{}, like);
      in.push_back(p.mask);
    }
    const NodeId made = rewriter_.emit(find_op("scaled_dot_product_attention"), in, p.match.attrs, like);
    p.y = rewriter_.to().node(made).out[0];
    p.lse = rewriter_.to().node(made).out[1];
    rewriter_.to().value(p.y).layouts = graph_.value(p.match.y).layouts;
    rewriter_.set(p.match.y, p.y);
    rewriter_.stands_for(p.match.scores, made);
  }

  void emit_backward(Planned& p) {
    const NodeId like = backward_like(p);
    const ValueId dy = value_of(p.match.dy, like);
    const TensorType lse = rewriter_.to().value(p.lse).type;
    const ValueId dlse = emit("full", {}, op::FullAttrs{lse.shape, 0, lse.dtype}, like);
    std::vector<ValueId> in{dy, dlse, p.q, p.k, p.v, p.y, p.lse};
    if (p.mask >= 0) in.push_back(p.mask);
    p.backward = rewriter_.emit(find_op("scaled_dot_product_attention_backward"), in,
                                op::AttentionBackwardAttrs{p.match.attrs.causal, p.match.attrs.scale, true}, like);
  }

  NodeId backward_like(const Planned& p) const {
    for (const auto& [id, planned] : backward_at_) {
      if (planned == &p) return id;
    }
    return maker(p.match.y);
  }

  void name_gradient(const Planned& p, std::size_t index) {
    const auto& gradient = p.match.gradients[index];
    ValueId made = rewriter_.to().node(p.backward).out[static_cast<std::size_t>(gradient.of)];
    if (gradient.transposed) made = transposed(made, maker(gradient.value));
    rewriter_.to().value(made).layouts = graph_.value(gradient.value).layouts;
    rewriter_.set(gradient.value, made);
  }

  const Graph& graph_;
  Rewriter rewriter_;
  Uses uses_;
  std::vector<std::unique_ptr<Planned>> planned_;
  std::map<NodeId, Planned*> forward_at_, backward_at_;
  std::map<NodeId, std::pair<Planned*, std::size_t>> gradient_at_;
};

// prune drops the old nodes.
Graph attention(const Graph& graph, const PassContext& context) { return prune(Attention(graph).run(), context); }

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_attention(PassTable& table) {
  table.add({.name = "attention",
             .doc = "replace attention spelt out by one that stores no scores, forward and backward",
             .order = 1100,
             .run = passes::attention});
}

}  // namespace starling::graph
