#pragma once

#include <optional>
#include <span>

#include "starling/graph/rewriter.h"

namespace starling {

// One node that a rule of the pass `simplify` looks at: its operands are those of the graph being built, so that rules
// see each other's work.
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
  std::optional<double> number(ValueId id) const;  // what it is everywhere
  bool is(ValueId id, double value) const;
  // Whether the operand, alone read here in the graph as it was, need not be kept: rules that would otherwise compute
  // twice ask.
  bool dies(std::size_t i) const;
  // The nodes that read the operand in the graph as it was.
  std::vector<const Node*> readers(std::size_t i) const;

  // New nodes in the place of this one.
  ValueId emit(const OpDef& op, std::span<const ValueId> in, const Attrs& attrs = {});
  ValueId emit(std::string_view op, std::initializer_list<ValueId> in, const Attrs& attrs = {});
  ValueId scalar(double value, DType dtype);
  ValueId shaped(ValueId id, const Shape& shape);  // reshaped, where it is not so already
  ValueId spread(ValueId id, const Shape& shape);  // broadcast, where it is not so already

 private:
  Rewriter& rewriter_;
  const std::vector<std::vector<NodeId>>& users_;  // of the graph as it was
  NodeId id_;
  SmallVector<ValueId, 4> in_;
};

inline constexpr ValueId kNoRewrite = -1;

// A rule gives the value that replaces the node's result, or kNoRewrite. Nodes that a rule is asked about are pure and
// have one result.
struct SimplifyRule {
  std::string_view op;  // whose nodes it is for; empty: any
  std::string_view name;
  ValueId (*apply)(Site& site);
};

std::span<const SimplifyRule> arithmetic_rules();  // identities, signs, scales, powers
std::span<const SimplifyRule> select_rules();      // conditions that are known, stretched operands
std::span<const SimplifyRule> view_rules();        // reshapes, transposes, broadcasts, casts
std::span<const SimplifyRule> piece_rules();       // slices, pads, concats
std::span<const SimplifyRule> reduce_rules();      // sums of broadcasts, reductions of reductions
std::span<const SimplifyRule> softmax_rules();     // logarithms of probabilities

}  // namespace starling
