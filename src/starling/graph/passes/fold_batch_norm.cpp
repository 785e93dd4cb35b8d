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
// left alone. Under mixed precision on a GPU casts stand around the normalisation; weights are scaled before theirs.
namespace starling::graph::passes {
namespace {

class BatchNorms {
 public:
  explicit BatchNorms(const Graph& graph) : graph_(graph), rewriter_(graph), uses_(graph) {}

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!graph_.node(id).out.empty() && rewriter_.mapped(graph_.node(id).out[0])) continue;  // folded with its norm
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

  // Only reader of a value, if it is a cast to this dtype; else -1.
  NodeId cast_after(ValueId id, DType dtype) const {
    const NodeId reader = uses_.only(id);
    if (reader < 0) return -1;
    const Node& node = graph_.node(reader);
    return is_op(node, "cast") && is_pure(node) && type(node.out[0]).dtype == dtype ? reader : -1;
  }

  // f32 value that a cast narrowed to this one; else -1.
  ValueId widened(ValueId id) const {
    const Node& maker = graph_.maker(id);
    return is_op(maker, "cast") && type(maker.in[0]).dtype == DType::f32 ? maker.in[0] : -1;
  }

  // Result of a map in 16 bits that only this normalisation reads, through a cast, and whose own result is only
  // narrowed again; else what the normalisation reads itself.
  ValueId normalised_by(NodeId id) const {
    const ValueId x = graph_.node(id).in[0];
    const Node& maker = graph_.maker(x);
    if (!is_op(maker, "cast") || graph_.node(id).device.kind != DeviceKind::cuda) return x;
    const ValueId narrow = maker.in[0];
    const bool between = is_half(type(narrow).dtype) && uses_.only(x) == id && is_pure(maker) &&
                         uses_.only(narrow) == graph_.value(x).node &&
                         cast_after(graph_.node(id).out[0], type(narrow).dtype) >= 0;
    return between ? narrow : x;
  }

  // True if scaling the weights is less work than scaling the images. Weights that are narrowed are scaled on the way.
  bool pays(const Node& made, ValueId x) const {
    return is_half(type(x).dtype) || type(made.in[1]).shape.numel() <= type(x).shape.numel();
  }

  // Convolution or linear map read only by this normalisation, if scaling its weights is less work; else -1.
  NodeId producer_of(NodeId id) const {
    const Node& norm = graph_.node(id);
    if (!is_op(norm, "batch_norm_infer") || !is_pure(norm)) return -1;
    if (norm.device.kind != DeviceKind::cuda && joins_residual(id)) return -1;
    const ValueId x = normalised_by(id);
    const bool narrow = x != norm.in[0];
    const NodeId producer = graph_.value(x).node;
    const Node& made = graph_.node(producer);
    const bool weighs = is_op(made, "conv1d") || is_op(made, "conv2d") || is_op(made, "conv3d") ||
                        (is_op(made, "linear") && type(x).shape.rank() == 2);
    if (!weighs || !is_pure(made) || is_half(type(x).dtype) != narrow || (!narrow && uses_.only(x) != id)) return -1;
    if (!made.attrs.get<Symbol>(*made.attrs.find("activation")).empty() || !pays(made, x)) return -1;
    for (std::size_t i = 0; i < made.in.size(); ++i) {
      const ValueId in = narrow && i > 0 ? widened(made.in[i]) : made.in[i];
      if (in < 0 || !may_be_read_later(graph_, in, producer, id)) return -1;
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
    const DType dtype = type(norm.in[0]).dtype, narrow = type(made.out[0]).dtype;
    const auto stats = rewriter_.map({norm.in.data(), norm.in.size()});
    auto operands = made.in;
    for (std::size_t i = 1; i < operands.size() && narrow != dtype; ++i) operands[i] = widened(operands[i]);
    auto in = rewriter_.map({operands.data(), operands.size()});
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
    for (std::size_t i = 1; i < in.size() && narrow != dtype; ++i) in[i] = emit("cast", {in[i]}, op::CastAttrs{narrow});
    const NodeId node = rewriter_.emit(*made.op, {in.data(), in.size()}, made.attrs, id);
    const ValueId y = rewriter_.to().node(node).out[0];
    rewriter_.to().value(y).layouts = graph_.value(norm.out[0]).layouts;
    rewriter_.stands_for(producer, node);
    if (narrow == dtype) return rewriter_.set(norm.out[0], y);
    const NodeId after = cast_after(norm.out[0], narrow);
    rewriter_.stands_for(id, node);
    rewriter_.stands_for(after, node);
    rewriter_.set(graph_.node(after).out[0], y);
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
