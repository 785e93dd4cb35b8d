#include "starling/graph/match.h"
#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/updates/momentum.h"

// update(w, …, g · f, lr, …) with a scalar f reads g unscaled and takes f as an operand: gradient clipping and loss
// scaling cost no pass over the gradients.
namespace starling::graph::passes {
namespace {

struct Scaled {
  NodeId product = -1;  // multiplication to be removed
  ValueId gradient = -1;
  ValueId factor = -1;
};

class Absorber {
 public:
  explicit Absorber(const Graph& graph) : graph_(graph), uses_(graph), rewriter_(graph), found_(graph.nodes().size()) {
    std::vector<bool> gone(graph.nodes().size());
    for (NodeId id = 0; id < graph.size(); ++id) {
      found_[static_cast<std::size_t>(id)] = scaled(id);
      const NodeId product = found_[static_cast<std::size_t>(id)].product;
      if (product >= 0) gone[static_cast<std::size_t>(product)] = true;
    }
    gone_ = std::move(gone);
  }

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Scaled& scaled = found_[static_cast<std::size_t>(id)];
      if (scaled.product >= 0)
        emit(id, scaled);
      else if (!gone_[static_cast<std::size_t>(id)])
        rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  bool is_number(ValueId id, const Node& update) const {
    return graph_.value(id).type == TensorType{DType::f32, {}} && graph_.maker(id).device == update.device;
  }

  // True for an update of one tensor that can take a factor: SGD needs a velocity for that. Only CPUs have the general
  // updates that take one.
  bool may_scale(const Node& update) const {
    if (update.device.kind != DeviceKind::cpu) return false;
    const auto operands = op::update_operands(*update.op, update.attrs);
    if (!operands || operands->tensors(update.in.size()) != 1) return false;
    if (is_op(update, "sgd_update")) return update.attrs.as<op::SgdAttrs>().momentum != 0;
    return !update.attrs.get<bool>(*update.attrs.find("scaled"));
  }

  Scaled scaled(NodeId id) const {
    const Node& update = graph_.node(id);
    if (!may_scale(update)) return {};
    const ValueId gradient = update.in[op::update_operands(*update.op, update.attrs)->targets];
    const NodeId product = graph_.value(gradient).node;
    const Node& mul = graph_.node(product);
    const TensorType& type = graph_.value(gradient).type;
    if (!is_op(mul, "mul") || !mul.after.empty() || mul.device != update.device || uses_.only(gradient) != id)
      return {};
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const ValueId x = mul.in[i], factor = mul.in[1 - i];
      const bool fits = graph_.value(x).type == type && type.dtype == DType::f32 && is_number(factor, update);
      if (fits && may_be_read_later(graph_, x, product, id) && may_be_read_later(graph_, factor, product, id))
        return {product, x, factor};
    }
    return {};
  }

  void emit(NodeId id, const Scaled& scaled) {
    const Node& update = graph_.node(id);
    const bool is_sgd = is_op(update, "sgd_update");
    const op::UpdateOperands operands = *op::update_operands(*update.op, update.attrs);
    Attrs attrs = is_sgd ? momentum_attrs(update) : update.attrs;
    attrs.get<bool>(*attrs.find("scaled")) = true;
    const bool guarded = attrs.get<bool>(*attrs.find("guarded"));
    std::vector<ValueId> in;
    for (ValueId value : update.in) in.push_back(value);
    in[operands.targets] = scaled.gradient;
    in.insert(in.end() - (guarded ? 1 : 0), scaled.factor);
    for (ValueId& value : in) value = rewriter_.map(value);
    const NodeId made = rewriter_.emit(is_sgd ? find_op("momentum_update") : *update.op, in, attrs, id);
    for (std::size_t i = 0; i < update.out.size(); ++i) {
      const ValueId fresh = rewriter_.to().node(made).out[i];
      rewriter_.set(update.out[i], fresh);
      rewriter_.to().value(fresh).layouts = graph_.value(update.out[i]).layouts;
    }
    rewriter_.stands_for(id, made);
    rewriter_.stands_for(scaled.product, made);
  }

  static Attrs momentum_attrs(const Node& update) {
    const auto& a = update.attrs.as<op::SgdAttrs>();
    return op::MomentumUpdateAttrs{.momentum = a.momentum, .weight_decay = a.weight_decay, .nesterov = a.nesterov};
  }

  const Graph& graph_;
  Uses uses_;
  Rewriter rewriter_;
  std::vector<Scaled> found_;
  std::vector<bool> gone_;
};

Graph scaled_updates(const Graph& graph, const PassContext&) { return Absorber(graph).run(); }

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_scaled_updates(PassTable& table) {
  table.add({.name = "scaled_updates",
             .doc = "multiply gradients by a number where they are used up",
             .order = 1900,
             .run = passes::scaled_updates});
}

}  // namespace starling::graph
