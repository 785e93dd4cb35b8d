#pragma once

#include <optional>
#include <span>

#include "starling/graph/rewriter.h"

namespace starling::graph {

// Node that a rule of the pass `simplify` examines. Its operands are values of the graph being built, so that rules see
// each other's results.
class Site {
 public:
  Site(Rewriter& rewriter, const std::vector<std::vector<NodeId>>& users, NodeId id);

  const Node& node() const { return rewriter_.from().node(id_); }
  std::size_t operands() const { return in_.size(); }
  ValueId in(std::size_t i) const { return in_[i]; }
  const TensorType& out() const { return rewriter_.from().value(node().out[0]).type; }

  const Graph& graph() const { return rewriter_.to(); }
  const Node& maker(ValueId id) const { return graph().maker(id); }
  const Node& maker_of(std::size_t i) const { return maker(in_[i]); }
  const TensorType& type(ValueId id) const { return graph().value(id).type; }
  std::optional<double> number(ValueId id) const;  // value of all elements, if they are equal
  bool is(ValueId id, double value) const;
  // True if this node is the operand's only reader in the old graph, so that it need not be kept; asked by rules that
  // would otherwise compute it twice.
  bool dies(std::size_t i) const;
  // Readers of the operand in the old graph.
  std::vector<const Node*> readers(std::size_t i) const;

  // Emits nodes in place of this one.
  ValueId emit(const OpDef& op, std::span<const ValueId> in, const Attrs& attrs = {});
  ValueId emit(std::string_view op, std::initializer_list<ValueId> in, const Attrs& attrs = {});
  ValueId scalar(double value, DType dtype);
  ValueId shaped(ValueId id, const Shape& shape);  // reshaped if necessary
  ValueId spread(ValueId id, const Shape& shape);  // broadcast if necessary

 private:
  Rewriter& rewriter_;
  const std::vector<std::vector<NodeId>>& users_;  // of the old graph
  NodeId id_;
  SmallVector<ValueId, 4> in_;
};

inline constexpr ValueId kNoRewrite = -1;

// Rewrite rule: returns the value that replaces the node's result, or kNoRewrite. Only applied to pure nodes with one
// result.
struct SimplifyRule {
  std::string_view op;  // op that it applies to; empty: any
  std::string_view name;
  ValueId (*apply)(Site& site);
};

std::span<const SimplifyRule> arithmetic_rules();  // identities, signs, scales, powers
std::span<const SimplifyRule> select_rules();      // known conditions, broadcast operands
std::span<const SimplifyRule> view_rules();        // reshapes, transposes, broadcasts, casts
std::span<const SimplifyRule> piece_rules();       // slices, pads, concats
std::span<const SimplifyRule> reduce_rules();      // sums of broadcasts, reductions of reductions
std::span<const SimplifyRule> softmax_rules();     // log of softmax

}  // namespace starling::graph
