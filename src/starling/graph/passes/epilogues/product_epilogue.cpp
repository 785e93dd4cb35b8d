#include "starling/graph/passes/epilogues/product_epilogue.h"

#include <algorithm>

#include "starling/graph/match.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/attrs/linear_epilogue.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/registry.h"

namespace starling::graph {
namespace {

// Smallest result worth an epilogue: smaller ones stay in the last-level cache between ops, and cutting the product
// into blocks gains nothing (measured from 128 x 2048 to 1024 x 3072: within 4 % either way).
constexpr std::int64_t kLeastElements = 1 << 22;

bool is_on_cpu(const Node& node) { return node.device.kind == DeviceKind::cpu; }

class Joiner {
 public:
  explicit Joiner(const Graph& graph) : graph_(graph), rewriter_(graph), uses_(graph) {}

 protected:
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  // Maker of an operand of `user`, if only `user` reads it and it may move there; else -1.
  NodeId waiting_maker(ValueId id, NodeId user) const {
    const NodeId maker = graph_.value(id).node;
    if (uses_.only(id) != user || !is_pure(graph_.node(maker)) || !is_pure(graph_.node(user))) return -1;
    for (ValueId in : graph_.node(maker).in) {
      if (!may_be_read_later(graph_, in, maker, user)) return -1;
    }
    return maker;
  }

  ValueId emit(std::string_view op, std::span<const ValueId> in, const Attrs& attrs, NodeId like) {
    return rewriter_.to().node(rewriter_.emit(find_op(op), in, attrs, like)).out[0];
  }

  void name(ValueId old, ValueId made) {
    rewriter_.to().value(made).layouts = graph_.value(old).layouts;
    rewriter_.set(old, made);
  }

  const Graph& graph_;
  Rewriter rewriter_;
  Uses uses_;
};

class Biases : public Joiner {
 public:
  using Joiner::Joiner;

  Graph run(bool& changed) {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (join(id))
        changed = true;
      else
        rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  bool join(NodeId id) {
    const Node& node = graph_.node(id);
    if (!is_op(node, "add")) return false;
    return join(id, node.in[0], node.in[1]) || join(id, node.in[1], node.in[0]);
  }

  bool join(NodeId id, ValueId result, ValueId bias) {
    const NodeId maker = waiting_maker(result, id);
    if (maker < 0 || type(result) != type(graph_.node(id).out[0])) return false;
    const Node& product = graph_.node(maker);
    if (is_op(product, "matmul")) return join_product(id, maker, bias);
    const bool is_conv = is_op(product, "conv1d") || is_op(product, "conv2d") || is_op(product, "conv3d");
    return is_conv && product.in.size() == 2 && join_conv(id, maker, bias);
  }

  // x · w + row, with one matrix w for all of x.
  bool join_product(NodeId id, NodeId maker, ValueId bias) {
    const Node& product = graph_.node(maker);
    const auto& flags = product.attrs.as<op::MatmulAttrs>();
    const TensorType& y = type(product.out[0]);
    if (!is_on_cpu(product) || !is_float(y.dtype) || flags.trans_a || type(product.in[1]).shape.rank() != 2)
      return false;
    if (type(bias).shape != Shape{y.shape.back()}) return false;
    ValueId weight = rewriter_.map(product.in[1]);
    if (!flags.trans_b) weight = emit("transpose", {&weight, 1}, op::TransposeAttrs{{1, 0}}, maker);
    const ValueId in[] = {rewriter_.map(product.in[0]), weight, rewriter_.map(bias)};
    name(graph_.node(id).out[0], emit("linear", in, op::LinearAttrs{}, maker));
    return true;
  }

  bool join_conv(NodeId id, NodeId maker, ValueId bias) {
    const Node& conv = graph_.node(maker);
    if (!is_on_cpu(conv) || !conv.attrs.get<Symbol>(*conv.attrs.find("activation")).empty()) return false;
    const Shape &y = type(conv.out[0]).shape, &b = type(bias).shape;
    Shape channels = Shape::filled(y.rank() - 1, 1);
    channels[0] = y[1];
    Shape batched = channels;
    batched.insert(0, 1);
    if (b != channels && b != batched) return false;
    const ValueId given = rewriter_.map(bias);
    const ValueId flat = emit("reshape", {&given, 1}, op::ShapeAttrs{{y[1]}}, maker);
    const ValueId in[] = {rewriter_.map(conv.in[0]), rewriter_.map(conv.in[1]), flat};
    name(graph_.node(id).out[0], emit(conv.op->name, in, conv.attrs, maker));
    return true;
  }
};

// Linear map with the nodes of its epilogue.
struct Epilogue {
  NodeId linear = -1;
  NodeId sum = -1;
  ValueId residual = -1;
  NodeId activation = -1;
  bool keep = false;
  NodeId last() const { return activation >= 0 ? activation : sum; }
};

class LinearEpilogue : public Joiner {
 public:
  explicit LinearEpilogue(const Graph& graph) : Joiner(graph), at_(graph.nodes().size()) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (const Epilogue epilogue = epilogue_of(id); epilogue.linear >= 0) plan(epilogue);
    }
  }

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const auto& epilogue = at_[static_cast<std::size_t>(id)];
      if (epilogue.linear >= 0)
        join(epilogue);
      else if (!waits(id))
        rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  bool is_linear(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!is_op(node, "linear") || !is_pure(node) || !is_on_cpu(node)) return false;
    const TensorType& y = type(node.out[0]);
    return node.attrs.as<op::LinearAttrs>().activation.empty() && y.shape.numel() >= kLeastElements &&
           (y.dtype == DType::f32 || y.dtype == DType::f64);
  }

  bool is_ending(NodeId id) const {
    const Node& node = graph_.node(id);
    return node.op->in_epilogue && is_pure(node) && node.out.size() == 1 && node.in.size() == 1 &&
           ending_op(Symbol(node.op->name)) == node.op && type(node.out[0]) == type(node.in[0]);
  }

  // Matches a linear map, the sum that alone reads it, and the elementwise op that reads either.
  Epilogue epilogue_of(NodeId id) const {
    if (!is_linear(id)) return {};
    Epilogue epilogue{id};
    ValueId at = graph_.node(id).out[0];
    if (const NodeId sum = uses_.only(at); sum >= 0 && is_op(graph_.node(sum), "add") && waiting_maker(at, sum) == id) {
      const Node& node = graph_.node(sum);
      const ValueId other = node.in[node.in[0] == at ? 1 : 0];
      if (type(other) == type(at) && type(node.out[0]) == type(at)) {
        epilogue.sum = sum;
        epilogue.residual = other;
        at = node.out[0];
      }
    }
    add_activation(epilogue, at);
    return epilogue.last() < 0 ? Epilogue{} : epilogue;
  }

  void add_activation(Epilogue& epilogue, ValueId at) const {
    const auto& users = uses_.of(at);
    const NodeId maker = graph_.value(at).node;
    // A value that a node between the map and the op reads cannot wait: it would be computed where the op stands.
    if (users.empty() || !is_ending(users[0]) || graph_.node(users[0]).device != graph_.node(maker).device) return;
    for (ValueId in : graph_.node(epilogue.linear).in) {
      if (!may_be_read_later(graph_, in, epilogue.linear, users[0])) return;
    }
    if (epilogue.residual >= 0 && !may_be_read_later(graph_, epilogue.residual, maker, users[0])) return;
    epilogue.activation = users[0];
    epilogue.keep = users.size() > 1 || uses_.is_output(at);
  }

  void plan(const Epilogue& epilogue) {
    at_[static_cast<std::size_t>(epilogue.last())] = epilogue;
    waiting_.push_back(epilogue.linear);
    if (epilogue.activation >= 0 && epilogue.sum >= 0) waiting_.push_back(epilogue.sum);
  }

  bool waits(NodeId id) const { return std::find(waiting_.begin(), waiting_.end(), id) != waiting_.end(); }

  void join(const Epilogue& epilogue) {
    const Node& linear = graph_.node(epilogue.linear);
    auto in = rewriter_.map({linear.in.data(), linear.in.size()});
    op::LinearEpilogueAttrs attrs{.biased = in.size() == 3, .residual = epilogue.residual >= 0, .keep = epilogue.keep};
    if (attrs.residual) in.push_back(rewriter_.map(epilogue.residual));
    if (epilogue.activation >= 0) {
      const Node& activation = graph_.node(epilogue.activation);
      attrs.activation = Symbol(activation.op->name);
      const auto numbers = numbers_of(activation.attrs);
      if (!numbers.empty()) attrs.parameter = numbers[0];
    }
    const NodeId made = rewriter_.emit(find_op("linear_epilogue"), {in.data(), in.size()}, attrs, epilogue.linear);
    const auto out = [&](std::size_t i) { return rewriter_.to().node(made).out[i]; };
    const ValueId before = graph_.node(epilogue.sum >= 0 ? epilogue.sum : epilogue.linear).out[0];
    rewriter_.stands_for(epilogue.linear, made);
    if (epilogue.activation < 0) return name(before, out(0));
    name(graph_.node(epilogue.activation).out[0], out(0));
    if (epilogue.keep) name(before, out(1));
    if (epilogue.sum >= 0) rewriter_.stands_for(epilogue.sum, made);
  }

  std::vector<Epilogue> at_;
  std::vector<NodeId> waiting_;
};

}  // namespace

Graph join_biases(const Graph& graph, bool& changed) { return Biases(graph).run(changed); }
Graph join_linear_epilogue(const Graph& graph) { return LinearEpilogue(graph).run(); }

}  // namespace starling::graph
