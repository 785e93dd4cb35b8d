#include <algorithm>

#include "starling/graph/dependencies.h"
#include "starling/graph/match.h"
#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"
#include "starling/graph/splice.h"
#include "starling/ops/def/attrs/creation.h"
#include "starling/ops/def/registry.h"

namespace starling::graph::passes {
namespace {

// Training batch norm, a residual and the following relu, run as one so that y is written once. Under mixed precision
// on a GPU a cast to 16 bits stands between.
struct Forward {
  NodeId norm, relu;
  NodeId add = -1;
  NodeId cast = -1;
  ValueId residual = -1;
  std::vector<NodeId> parts() const {
    std::vector<NodeId> all;
    for (NodeId part : {norm, cast, add, relu}) {
      if (part >= 0) all.push_back(part);
    }
    return all;
  }
};

class Rewrite {
 public:
  explicit Rewrite(const Graph& graph)
      : graph_(graph),
        rewriter_(graph),
        users_(graph.users()),
        before_(dependencies(graph)),
        place_(graph.nodes().size()),
        forward_(graph.nodes().size(), -1),
        is_output_(graph.values().size()) {
    for (ValueId id : graph.outputs) is_output_[at(id)] = true;
    for (NodeId id = 0; id < graph.size(); ++id) place_[at(id)] = id;
  }

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) find_forward(id);
    for (NodeId id : grouped_order(before_, place_)) {
      if (forward_[at(id)] >= 0)
        emit(found_[at(forward_[at(id)])]);
      else if (!emit_backward(id) && !emit_infer(id) && !goes_into_backward(id))
        rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  static std::size_t at(int id) { return static_cast<std::size_t>(id); }
  const Node& node(NodeId id) const { return graph_.node(id); }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  // Only reader of a value; else -1.
  NodeId only_reader(ValueId id) const {
    const auto& users = users_[at(id)];
    return users.size() == 1 && !is_output_[at(id)] ? users[0] : -1;
  }
  // Channels of single elements have separate kernels.
  bool floats_in_space(ValueId id) const {
    const TensorType& t = type(id);
    if (t.dtype != DType::f32 && t.dtype != DType::f64) return false;
    std::int64_t inside = 1;
    for (int d = 2; d < t.shape.rank(); ++d) inside *= t.shape[d];
    return inside > 1;
  }
  bool same_place(NodeId a, NodeId b) const {
    const DeviceKind kind = node(a).device.kind;
    return node(a).device == node(b).device && node(a).lane == node(b).lane && node(b).after.empty() &&
           (kind == DeviceKind::cpu || kind == DeviceKind::cuda);
  }

  // Cast on a GPU that makes this value for `reader` alone; else -1.
  NodeId cast_for(ValueId id, NodeId reader) const {
    const NodeId maker = graph_.value(id).node;
    const bool fits = is_op(node(maker), "cast") && node(maker).device.kind == DeviceKind::cuda &&
                      only_reader(id) == reader && same_place(maker, reader) && node(maker).after.empty();
    return fits ? maker : -1;
  }

  // Normalisation with weight and bias whose y is read by this node alone, maybe through a cast.
  NodeId norm_for(ValueId y, NodeId reader, NodeId& cast) const {
    cast = cast_for(y, reader);
    if (cast >= 0) reader = cast, y = node(cast).in[0];
    const NodeId maker = graph_.value(y).node;
    const Node& norm = node(maker);
    const bool fits = is_op(norm, "batch_norm_train") && norm.in.size() == 3 && y == norm.out[0] &&
                      only_reader(y) == reader && floats_in_space(y) && same_place(maker, reader) && norm.after.empty();
    return fits && forward_[at(maker)] < 0 ? maker : -1;
  }

  void find_forward(NodeId id) {
    if (!is_op(node(id), "relu")) return;
    const ValueId x = node(id).in[0];
    Forward found{-1, id};
    found.norm = norm_for(x, id, found.cast);
    const NodeId add = graph_.value(x).node;
    if (found.norm < 0 && is_op(node(add), "add") && only_reader(x) == id && same_place(add, id)) {
      found.add = add;
      for (int side : {0, 1}) {
        const ValueId y = node(add).in[at(side)], other = node(add).in[at(1 - side)];
        if (found.norm >= 0 || y == other || type(other) != type(y)) continue;
        found.norm = norm_for(y, add, found.cast);
        found.residual = other;
      }
    }
    if (found.norm < 0) return;
    const std::vector<NodeId> kept = place_;
    for (NodeId part : found.parts()) place_[at(part)] = found.norm;
    // If the residual depends on the statistics they cannot run as one.
    if (found.residual >= 0 && grouped_order(before_, place_).size() != places()) {
      place_ = kept;
      return;
    }
    for (NodeId part : found.parts()) forward_[at(part)] = static_cast<int>(found_.size());
    found_.push_back(found);
  }

  std::size_t places() const {
    std::size_t count = 0;
    for (std::size_t id = 0; id < place_.size(); ++id) count += place_[id] == static_cast<NodeId>(id);
    return count;
  }

  void emit(const Forward& found) {
    static const OpDef& op = find_op("batch_norm_relu");
    const Node& norm = node(found.norm);
    auto in = rewriter_.map({norm.in.data(), norm.in.size()});
    const DType wide = type(norm.in[0]).dtype;
    if (found.residual >= 0) in.push_back(cast(rewriter_.map(found.residual), wide, found.norm));
    const NodeId made = rewriter_.emit(op, {in.data(), in.size()}, norm.attrs, found.norm);
    for (NodeId part : found.parts()) rewriter_.stands_for(part, made);
    const ValueId old[] = {node(found.relu).out[0], norm.out[1], norm.out[2]};
    for (std::size_t i = 0; i < 3; ++i) {
      const ValueId out = cast(rewriter_.to().node(made).out[i], type(old[i]).dtype, found.relu);
      rewriter_.set(old[i], out);
      rewriter_.to().value(out).layouts = graph_.value(old[i]).layouts;
    }
  }

  ValueId cast(ValueId id, DType dtype, NodeId like) {
    if (rewriter_.to().value(id).type.dtype == dtype) return id;
    return rewriter_.to().node(rewriter_.emit(find_op("cast"), {&id, 1}, op::CastAttrs{dtype}, like)).out[0];
  }

  // Gradient of a relu that is read only by the gradient of a normalisation.
  NodeId backward_of(NodeId id) const {
    if (!is_op(node(id), "relu_backward")) return -1;
    ValueId slope = node(id).out[0];
    NodeId reader = only_reader(slope);
    if (reader >= 0 && is_op(node(reader), "cast") && node(reader).device.kind == DeviceKind::cuda &&
        only_reader(node(reader).out[0]) >= 0 && same_place(reader, only_reader(node(reader).out[0]))) {
      slope = node(reader).out[0];
      reader = only_reader(slope);
    }
    if (reader < 0 || !is_op(node(reader), "batch_norm_train_backward") || node(reader).in.size() != 5) return -1;
    const bool masks = node(reader).in[0] == slope && type(node(id).in[0]) == type(node(id).in[1]);
    return masks && floats_in_space(slope) && same_place(id, reader) && node(id).after.empty() ? reader : -1;
  }
  // True for the gradient of a relu, and a cast of it, that a normalisation's takes over.
  bool goes_into_backward(NodeId id) const {
    if (!is_op(node(id), "cast")) return backward_of(id) >= 0;
    const NodeId reader = only_reader(node(id).out[0]);
    return reader >= 0 && backward_of(graph_.value(node(id).in[0]).node) == reader;
  }

  // Bias, in the new graph, of the normalisation that made this result of its relu without a residual, if `backward` on
  // a GPU is its gradient: it makes the mask again of x, which it reads anyway, instead of reading y. Else -1.
  ValueId bias_of(ValueId y, NodeId backward) const {
    if (node(backward).device.kind != DeviceKind::cuda) return -1;
    NodeId maker = graph_.value(y).node;
    if (is_op(node(maker), "cast")) maker = graph_.value(node(maker).in[0]).node;
    const int number = forward_[at(maker)];
    if (number < 0 || found_[at(number)].relu != maker || found_[at(number)].residual >= 0) return -1;
    const Node& norm = node(found_[at(number)].norm);
    const Node& back = node(backward);
    const bool same =
        back.in[1] == norm.in[0] && back.in[2] == norm.out[1] && back.in[3] == norm.out[2] && back.in[4] == norm.in[1];
    const ValueId bias = norm.in[2];
    return same && may_be_read_later(graph_, bias, found_[at(number)].norm, backward) ? rewriter_.map(bias) : -1;
  }

  bool emit_backward(NodeId id) {
    if (!is_op(node(id), "batch_norm_train_backward")) return false;
    NodeId relu = graph_.value(node(id).in[0]).node;
    const NodeId between = is_op(node(relu), "cast") ? relu : -1;
    if (between >= 0) relu = graph_.value(node(relu).in[0]).node;
    if (backward_of(relu) != id) return false;
    static const OpDef& op = find_op("batch_norm_relu_backward");
    const DType wide = type(node(id).in[1]).dtype;
    const ValueId bias = bias_of(node(relu).in[1], id);
    SmallVector<ValueId, 4> in{cast(rewriter_.map(node(relu).in[0]), wide, id)};
    if (bias < 0) in.push_back(cast(rewriter_.map(node(relu).in[1]), wide, id));
    for (std::size_t i = 1; i < 5; ++i) in.push_back(rewriter_.map(node(id).in[i]));
    if (bias >= 0) in.push_back(bias);
    static const OpDef& again = find_op("batch_norm_positive_backward");
    const NodeId made = rewriter_.emit(bias >= 0 ? again : op, {in.data(), in.size()}, node(id).attrs, id);
    rewriter_.stands_for(relu, made);
    if (between >= 0) rewriter_.stands_for(between, made);
    for (std::size_t i = 0; i < 3; ++i) {
      const ValueId fresh = rewriter_.to().node(made).out[i];
      rewriter_.set(node(id).out[i], fresh);
      rewriter_.to().value(fresh).layouts = graph_.value(node(id).out[i]).layouts;
    }
    return true;
  }

  // With fixed statistics a normalisation is elementwise: next to an elementwise reader it joins its chain.
  bool emit_infer(NodeId id) {
    if (!is_op(node(id), "batch_norm_infer") || !floats_in_space(node(id).in[0])) return false;
    const NodeId reader = only_reader(node(id).out[0]);
    if (reader < 0 || !node(reader).op->elementwise() || !same_place(id, reader)) return false;
    if (type(node(reader).out[0]) != type(node(id).out[0])) return false;
    Types types;
    for (ValueId in : node(id).in) types.push_back(type(in));
    const auto in = rewriter_.map({node(id).in.data(), node(id).in.size()});
    const Graph part = decomposition(*node(id).op, {types.data(), types.size()}, node(id).attrs);
    rewriter_.set(node(id).out[0], splice(rewriter_, part, {in.data(), in.size()}, id)[0]);
    return true;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<std::vector<NodeId>> before_;
  std::vector<NodeId> place_;
  std::vector<int> forward_;  // index into `found_` that a node is part of, or -1
  std::vector<Forward> found_;
  std::vector<bool> is_output_;
};

Graph norm_activation(const Graph& graph, const PassContext&) { return Rewrite(graph).run(); }

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_norm_activation(PassTable& table) {
  table.add({.name = "norm_activation",
             .doc = "join batch normalisations with the residual and relu behind them, and their gradients",
             .order = 1800,
             .run = passes::norm_activation});
}

}  // namespace starling::graph
