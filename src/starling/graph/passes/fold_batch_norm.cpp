#include "starling/graph/match.h"
#include "starling/graph/pass.h"
#include "starling/graph/passes/prune.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/normalize.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/attrs/creation.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/registry.h"

// conv(x, w) + b normalised by fixed statistics equals conv(x, w · s) + (b - mean) · s + bias with s = weight / √(var +
// eps): the weights are scaled instead of the activations. Programs with gradients read the activations again and are
// left alone.
namespace starling::graph::passes {
namespace {

class BatchNorms {
 public:
  explicit BatchNorms(const Graph& graph) : graph_(graph), rewriter_(graph), uses_(graph) {}

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const NodeId producer = producer_of(id);
      if (producer < 0)
        rewriter_.copy(id);
      else
        fold(id, producer);
    }
    return rewriter_.finish();
  }

 private:
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  // A following residual joins the normalisation in one pass over the activations, which is no worse. Of two
  // normalisations that are added the first is folded, the other joins it.
  bool joins_residual(NodeId id) const {
    const ValueId y = graph_.node(id).out[0];
    const NodeId sum = uses_.only(y);
    if (sum < 0 || !is_op(graph_.node(sum), "add")) return false;
    const Node& node = graph_.node(sum);
    const ValueId other = node.in[node.in[0] == y ? 1 : 0];
    return !is_op(graph_.maker(other), "batch_norm_infer") || graph_.value(other).node < id;
  }

  // Convolution or linear map read only by this normalisation, if scaling its weights is less work; else -1.
  NodeId producer_of(NodeId id) const {
    const Node& norm = graph_.node(id);
    if (!is_op(norm, "batch_norm_infer") || !is_pure(norm) || joins_residual(id)) return -1;
    const ValueId x = norm.in[0];
    const NodeId producer = graph_.value(x).node;
    const Node& made = graph_.node(producer);
    const bool weighs = is_op(made, "conv1d") || is_op(made, "conv2d") || is_op(made, "conv3d") ||
                        (is_op(made, "linear") && type(x).shape.rank() == 2);
    if (!weighs || !is_pure(made) || uses_.only(x) != id || is_half(type(x).dtype)) return -1;
    if (!made.attrs.get<Symbol>(*made.attrs.find("activation")).empty()) return -1;
    if (type(made.in[1]).shape.numel() > type(x).shape.numel()) return -1;
    for (ValueId in : made.in) {
      if (!may_be_read_later(graph_, in, producer, id)) return -1;
    }
    return producer;
  }

  ValueId emit(std::string_view op, std::initializer_list<ValueId> in, const Attrs& attrs = {}) {
    return rewriter_.to().node(rewriter_.emit(find_op(op), {in.begin(), in.size()}, attrs, like_)).out[0];
  }

  void fold(NodeId id, NodeId producer) {
    like_ = id;
    const Node& norm = graph_.node(id);
    const Node& made = graph_.node(producer);
    const auto stats = rewriter_.map({norm.in.data(), norm.in.size()});
    auto in = rewriter_.map({made.in.data(), made.in.size()});
    const DType dtype = type(norm.in[0]).dtype;
    const ValueId eps = emit("full", {}, op::FullAttrs{{}, norm.attrs.as<op::EpsAttrs>().eps, dtype});
    ValueId scale = emit("rsqrt", {emit("add", {stats[2], eps})});
    if (stats.size() > 3) scale = emit("mul", {scale, stats[3]});
    Shape column = Shape::filled(type(made.in[1]).shape.rank(), 1);
    column[0] = type(made.in[1]).shape[0];
    in[1] = emit("mul", {in[1], emit("reshape", {scale}, op::ShapeAttrs{column})});
    ValueId shift = in.size() == 3 ? emit("sub", {in[2], stats[1]}) : emit("neg", {stats[1]});
    shift = emit("mul", {shift, scale});
    if (stats.size() > 4) shift = emit("add", {shift, stats[4]});
    if (in.size() == 3)
      in[2] = shift;
    else
      in.push_back(shift);
    const NodeId node = rewriter_.emit(*made.op, {in.data(), in.size()}, made.attrs, id);
    const ValueId y = rewriter_.to().node(node).out[0];
    rewriter_.to().value(y).layouts = graph_.value(norm.out[0]).layouts;
    rewriter_.set(norm.out[0], y);
    rewriter_.stands_for(producer, node);
  }

  const Graph& graph_;
  Rewriter rewriter_;
  Uses uses_;
  NodeId like_ = 0;
};

Graph fold_batch_norm(const Graph& graph, const PassContext& context) {
  return prune(BatchNorms(graph).run(), context);
}

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_fold_batch_norm(PassTable& table) {
  table.add({.name = "fold_batch_norm",
             .doc = "move normalisation by given statistics into the weights before it",
             .order = 1600,
             .run = passes::fold_batch_norm});
}

}  // namespace starling::graph
