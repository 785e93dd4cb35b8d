#include <algorithm>

#include "starling/graph/match.h"
#include "starling/graph/pass.h"
#include "starling/graph/passes/epilogues/product_epilogue.h"
#include "starling/graph/passes/prune.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/conv.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"

namespace starling::graph::passes {
namespace {

// Activation that an op computes, or whose gradient it computes; empty for other ops.
Symbol activation_of(const Node& node, std::string_view suffix) {
  for (const char* name : {"relu", "tanh", "sigmoid"}) {
    if (node.op->name == std::string(name) + std::string(suffix)) return Symbol(name);
  }
  return {};
}

class Epilogues {
 public:
  explicit Epilogues(const Graph& graph)
      : graph_(graph),
        rewriter_(graph),
        users_(graph.users()),
        is_output_(graph.values().size()),
        done_(graph.nodes().size()),
        uses_(graph) {
    for (ValueId id : graph.outputs) is_output_[static_cast<std::size_t>(id)] = true;
  }

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (done_[static_cast<std::size_t>(id)]) continue;
      if (add_residual(id) || activate(id) || activate_gradient(id) || wait_for_update(id) || update(id)) continue;
      rewriter_.copy(id);
    }
    return rewriter_.finish();
  }
  // True if nodes that others stand for are left without readers.
  bool left_nodes() const { return left_nodes_; }

 private:
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  // Only reader of a value, on the same device; else -1.
  NodeId only_user(ValueId id) const {
    const auto& users = users_[static_cast<std::size_t>(id)];
    if (users.size() != 1 || is_output_[static_cast<std::size_t>(id)]) return -1;
    const Node& user = graph_.node(users[0]);
    const Node& maker = graph_.maker(id);
    if (std::count(user.in.begin(), user.in.end(), id) != 1) return -1;
    return user.device == maker.device && user.lane == maker.lane && user.after.empty() ? users[0] : -1;
  }

  // Replaces `id` and its only user by one node, emitted in place of `id`.
  void absorb(NodeId id, NodeId user, const OpDef& op, std::span<const ValueId> in, const Attrs& attrs) {
    const NodeId made = rewriter_.emit(op, in, attrs, id);
    const ValueId old = graph_.node(user).out[0];
    const ValueId fresh = rewriter_.to().node(made).out[0];
    rewriter_.to().value(fresh).layouts = graph_.value(old).layouts;
    rewriter_.set(old, fresh);
    rewriter_.stands_for(id, made);
    done_[static_cast<std::size_t>(user)] = true;
  }

  // Convolution with a bias that only this sum on a GPU reads, so that it may wait for the other operand; else -1.
  NodeId conv_before(NodeId sum, ValueId y) const {
    const NodeId id = graph_.value(y).node;
    const Node& conv = graph_.node(id);
    if (conv.device.kind != DeviceKind::cuda || !is_op(conv, "conv2d") || conv.in.size() != 3 || !is_pure(conv))
      return -1;
    if (uses_.only(y) != sum || !conv.attrs.get<Symbol>(*conv.attrs.find("activation")).empty()) return -1;
    return id;
  }

  // conv2d + residual → relu on a GPU: in one, where the relu stands.
  bool add_residual(NodeId id) {
    const Node& relu = graph_.node(id);
    if (!is_op(relu, "relu") || relu.device.kind != DeviceKind::cuda || !is_pure(relu)) return false;
    const NodeId sum = graph_.value(relu.in[0]).node;
    const Node& add = graph_.node(sum);
    if (!is_op(add, "add") || !is_pure(add) || uses_.only(relu.in[0]) != id || add.in[0] == add.in[1] ||
        type(add.in[0]) != type(add.in[1]))
      return false;
    // Of two convolutions the later one waits: the other is computed by then.
    const bool second = graph_.value(add.in[1]).node > graph_.value(add.in[0]).node;
    for (const std::size_t side : {std::size_t{second}, std::size_t{!second}}) {
      const NodeId conv = conv_before(sum, add.in[side]);
      if (conv < 0) continue;
      const Node& made = graph_.node(conv);
      bool waits = may_be_read_later(graph_, add.in[1 - side], sum, id);
      for (ValueId in : made.in) waits = waits && may_be_read_later(graph_, in, conv, id);
      if (!waits) continue;
      auto in = rewriter_.map({made.in.data(), made.in.size()});
      in.push_back(rewriter_.map(add.in[1 - side]));
      Attrs attrs = made.attrs;
      attrs.get<Symbol>(*attrs.find("activation")) = Symbol("relu");
      const NodeId fresh = rewriter_.emit(find_op("conv2d_residual"), {in.data(), in.size()}, attrs, id);
      const ValueId y = rewriter_.to().node(fresh).out[0];
      rewriter_.to().value(y).layouts = graph_.value(relu.out[0]).layouts;
      rewriter_.set(relu.out[0], y);
      for (NodeId part : {conv, sum}) rewriter_.stands_for(part, fresh);
      left_nodes_ = true;
      return true;
    }
    return false;
  }

  // linear, conv2d → activation: the gradient needs only the activation's output.
  bool activate(NodeId id) {
    const Node& node = graph_.node(id);
    const bool is_linear = is_op(node, "linear");
    if (!is_linear && !is_op(node, "conv2d")) return false;
    const NodeId user = only_user(node.out[0]);
    if (user < 0) return false;
    const Symbol activation = activation_of(graph_.node(user), "");
    Attrs attrs = node.attrs;
    Symbol& into = attrs.get<Symbol>(*attrs.find("activation"));
    if (activation.empty() || !into.empty()) return false;
    into = activation;
    const auto in = rewriter_.map({node.in.data(), node.in.size()});
    absorb(id, user, *node.op, {in.data(), in.size()}, attrs);
    return true;
  }

  bool is_plain_product(const Node& node) const { return is_op(node, "matmul") && type(node.out[0]).shape.rank() == 2; }

  // matmul → X_backward(matmul, y): the product times the derivative, in one pass.
  bool activate_gradient(NodeId id) {
    const Node& node = graph_.node(id);
    if (!is_plain_product(node)) return false;
    const NodeId user = only_user(node.out[0]);
    if (user < 0) return false;
    const Node& backward = graph_.node(user);
    const Symbol activation = activation_of(backward, "_backward");
    if (activation.empty() || backward.in[0] != node.out[0]) return false;
    const ValueId y = backward.in[1];
    if (type(y) != type(node.out[0]) || !rewriter_.mapped(y)) return false;
    static const OpDef& op = find_op("matmul_act");
    const auto& attrs = node.attrs.as<op::MatmulAttrs>();
    const ValueId in[] = {rewriter_.map(node.in[0]), rewriter_.map(node.in[1]), rewriter_.map(y)};
    absorb(id, user, op, in, op::MatmulActAttrs{attrs.trans_a, attrs.trans_b, activation});
    return true;
  }

  // Update that is the only reader of a product, as its gradient; -1 if there is none or it does more.
  NodeId update_of(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!is_plain_product(node) || type(node.out[0]).dtype != DType::f32) return -1;
    const NodeId user = only_user(node.out[0]);
    if (user < 0 || !is_op(graph_.node(user), "sgd_update")) return -1;
    const Node& update = graph_.node(user);
    const bool as_gradient = update.in[2] == node.out[0] && !update.attrs.as<op::SgdAttrs>().nesterov;
    return as_gradient && node.after.empty() && stays(node.in[0], id, user) && stays(node.in[1], id, user) ? user : -1;
  }

  // The product moves to its update: not past a write to a variable that a factor reads in place.
  bool stays(ValueId factor, NodeId from, NodeId to) const {
    while (graph_.maker(factor).op->view) factor = graph_.maker(factor).in[0];
    const Node& source = graph_.maker(factor);
    if (!is_op(source, "variable")) return true;
    for (NodeId id = from; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (!is_op(node, "assign") || source_index(node) != source_index(source)) continue;
      if (graph_.value(node.in[0]).node <= to) return false;
    }
    return true;
  }

  bool wait_for_update(NodeId id) const { return update_of(id) >= 0; }

  // matmul → sgd_update: the gradient is never stored.
  bool update(NodeId id) {
    const Node& node = graph_.node(id);
    if (!is_op(node, "sgd_update")) return false;
    const NodeId product = graph_.value(node.in[2]).node;
    if (update_of(product) != id) return false;
    static const OpDef& op = find_op("matmul_sgd");
    const Node& factors = graph_.node(product);
    const auto& flags = factors.attrs.as<op::MatmulAttrs>();
    const auto& sgd = node.attrs.as<op::SgdAttrs>();
    const ValueId old[] = {node.in[0], node.in[1], factors.in[0], factors.in[1], node.in[3]};
    const auto in = rewriter_.map(old);
    const NodeId made =
        rewriter_.emit(op, {in.data(), in.size()},
                       op::MatmulSgdAttrs{flags.trans_a, flags.trans_b, sgd.momentum, sgd.weight_decay}, id);
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      const ValueId fresh = rewriter_.to().node(made).out[i];
      rewriter_.to().value(fresh).layouts = graph_.value(node.out[i]).layouts;
      rewriter_.set(node.out[i], fresh);
    }
    rewriter_.stands_for(product, made);
    return true;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_;
  std::vector<bool> done_;
  Uses uses_;
  bool left_nodes_ = false;
};

// Biases first, so that activations find their linear map; other elementwise ops are folded last.
Graph epilogues(const Graph& graph, const PassContext& context) {
  bool changed = false;
  Graph biased = join_biases(graph, changed);
  if (changed) biased = prune(biased, context);
  Epilogues rewrite(biased);
  const Graph made = rewrite.run();
  return join_linear_epilogue(rewrite.left_nodes() ? prune(made, context) : made);
}

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_epilogues(PassTable& table) {
  table.add({.name = "epilogues",
             .doc = "fold activations, their gradients and updates into products",
             .order = 1700,
             .run = passes::epilogues});
}

}  // namespace starling::graph
