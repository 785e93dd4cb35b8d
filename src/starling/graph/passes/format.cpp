#include <numeric>

#include "starling/graph/pass.h"
#include "starling/graph/passes/prune.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"

namespace starling::graph::passes {
namespace {

Shape full_order(const Node& transpose, int rank) {
  const Shape& order = transpose.attrs.as<op::TransposeAttrs>().order;
  Shape out;
  for (int i = 0; i < rank; ++i)
    out.push_back(order.empty() ? rank - 1 - i : normalize_axis(order[i], rank, "transpose"));
  return out;
}

bool keeps_order(const Shape& order) {
  for (int i = 0; i < order.rank(); ++i) {
    if (order[i] != i) return false;
  }
  return true;
}

bool swaps_last_two(Shape order) {
  const int rank = order.rank();
  if (rank < 2) return false;
  std::swap(order[rank - 1], order[rank - 2]);
  return keeps_order(order);
}

struct Flags {
  bool a, b;
};
template <class T>
void flip(Attrs& attrs, Flags which) {
  T typed = attrs.as<T>();
  typed.trans_a ^= which.a;
  typed.trans_b ^= which.b;
  attrs = typed;
}

// Index of the first of a product's two factors; -1 for other ops.
int first_factor(const Node& node) {
  if (is_op(node, "matmul") || is_op(node, "matmul_act")) return 0;
  return is_op(node, "matmul_sgd") ? 2 : -1;
}

// Flips the flags in the op's attribute struct.
void flip(const Node& node, Attrs& attrs, Flags which) {
  if (is_op(node, "matmul"))
    flip<op::MatmulAttrs>(attrs, which);
  else if (is_op(node, "matmul_act"))
    flip<op::MatmulActAttrs>(attrs, which);
  else
    flip<op::MatmulSgdAttrs>(attrs, which);
}

// Rewrites in one walk; rules look at makers in the new graph, so that they see each other's results.
class Formats {
 public:
  explicit Formats(const Graph& graph)
      : graph_(graph), rewriter_(graph), users_(graph.users()), is_output_(graph.values().size()) {
    for (ValueId id : graph.outputs) is_output_[static_cast<std::size_t>(id)] = true;
  }

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (!node.out.empty() && rewriter_.mapped(node.out[0])) continue;  // already emitted with its product
      const bool unordered = node.after.empty();
      if (unordered && (vanish(id) || join_reshapes(id) || join_transposes(id) || absorb_transposes(id))) continue;
      rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  Graph& to() { return rewriter_.to(); }
  const Node& new_maker(ValueId old) { return to().maker(rewriter_.map(old)); }

  void replace(NodeId id, ValueId made) {
    const ValueId old = graph_.node(id).out[0];
    rewriter_.set(old, made);
  }

  void replace(NodeId id, const OpDef& op, std::span<const ValueId> in, const Attrs& attrs) {
    const ValueId made = to().node(rewriter_.emit(op, in, attrs, id)).out[0];
    to().value(made).layouts = graph_.value(graph_.node(id).out[0]).layouts;
    replace(id, made);
  }

  // Drops no-ops: identity, a cast, reshape or broadcast to the same type, a transpose that keeps the order.
  bool vanish(NodeId id) {
    const Node& node = graph_.node(id);
    const bool may =
        is_op(node, "identity") || is_op(node, "cast") || is_op(node, "reshape") || is_op(node, "broadcast_to") ||
        (is_op(node, "transpose") && keeps_order(full_order(node, graph_.value(node.in[0]).type.shape.rank())));
    if (!may || graph_.value(node.in[0]).type != graph_.value(node.out[0]).type || !same_place(id)) return false;
    replace(id, rewriter_.map(node.in[0]));
    return true;
  }

  // An identity between devices or layouts is a transfer, not a copy.
  bool same_place(NodeId id) {
    const Node& node = graph_.node(id);
    return node.device == graph_.maker(node.in[0]).device &&
           graph_.value(node.in[0]).layouts == graph_.value(node.out[0]).layouts;
  }

  bool join_reshapes(NodeId id) {
    const Node& node = graph_.node(id);
    if (!is_op(node, "reshape") || !is_op(new_maker(node.in[0]), "reshape")) return false;
    const ValueId from = new_maker(node.in[0]).in[0];
    if (to().value(from).type == graph_.value(node.out[0]).type)
      replace(id, from);
    else
      replace(id, *node.op, {&from, 1}, node.attrs);
    return true;
  }

  bool join_transposes(NodeId id) {
    const Node& node = graph_.node(id);
    if (!is_op(node, "transpose") || !is_op(new_maker(node.in[0]), "transpose")) return false;
    const Node& inner = new_maker(node.in[0]);
    const ValueId from = inner.in[0];
    const int rank = to().value(from).type.shape.rank();
    const Shape first = full_order(inner, rank);
    Shape both;
    for (auto axis : full_order(node, rank)) both.push_back(first[static_cast<int>(axis)]);
    if (keeps_order(both))
      replace(id, from);
    else
      replace(id, *node.op, {&from, 1}, op::TransposeAttrs{both});
    return true;
  }

  // Turns a transpose of a factor's last two dimensions into a flag.
  bool absorb_transposes(NodeId id) {
    const Node& node = graph_.node(id);
    const int first = first_factor(node);
    if (first < 0) return false;
    auto in = rewriter_.map({node.in.data(), node.in.size()});
    ValueId& a = in[static_cast<std::size_t>(first)];
    ValueId& b = in[static_cast<std::size_t>(first) + 1];
    const Flags flipped{untranspose(a), untranspose(b)};
    Attrs attrs = node.attrs;
    flip(node, attrs, flipped);
    if (transpose_product(id, {in.data(), in.size()}, attrs)) return true;
    if (!flipped.a && !flipped.b) return false;
    const NodeId made = rewriter_.emit(*node.op, {in.data(), in.size()}, attrs, id);
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      const ValueId fresh = to().node(made).out[i];
      to().value(fresh).layouts = graph_.value(node.out[i]).layouts;
      rewriter_.set(node.out[i], fresh);
    }
    return true;
  }

  // (a·b)ᵀ = bᵀ·aᵀ, if the untransposed product has no other reader.
  bool transpose_product(NodeId id, std::span<const ValueId> in, const Attrs& attrs) {
    const Node& node = graph_.node(id);
    const auto product = static_cast<std::size_t>(node.out[0]);
    if (!is_op(node, "matmul") || users_[product].size() != 1 || is_output_[product]) return false;
    const NodeId user = users_[product][0];
    const Node& transpose = graph_.node(user);
    if (!is_op(transpose, "transpose") || transpose.device != node.device || !transpose.after.empty()) return false;
    if (!swaps_last_two(full_order(transpose, graph_.value(node.out[0]).type.shape.rank()))) return false;
    const auto& flags = attrs.as<op::MatmulAttrs>();
    const ValueId swapped[] = {in[1], in[0]};
    const NodeId made = rewriter_.emit(*node.op, swapped, op::MatmulAttrs{!flags.trans_b, !flags.trans_a}, id);
    to().value(to().node(made).out[0]).layouts = graph_.value(transpose.out[0]).layouts;
    replace(user, to().node(made).out[0]);
    rewriter_.stands_for(id, made);
    return true;
  }

  bool untranspose(ValueId& factor) {
    const Node& maker = to().maker(factor);
    if (!is_op(maker, "transpose") || !swaps_last_two(full_order(maker, to().value(factor).type.shape.rank())))
      return false;
    factor = maker.in[0];
    return true;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_;
};

// prune drops nodes without readers.
Graph format(const Graph& graph, const PassContext& context) { return prune(Formats(graph).run(), context); }

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_format(PassTable& table) {
  table.add({.name = "format",
             .doc = "turn transposes into flags of the products that read them",
             .order = 1400,
             .run = passes::format});
}

}  // namespace starling::graph
