#include <algorithm>
#include <cmath>

#include "starling/graph/match.h"
#include "starling/graph/pass.h"
#include "starling/graph/passes/prune.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/attrs/creation.h"
#include "starling/ops/def/registry.h"

namespace starling::graph::passes {
namespace {

// True if scaling a factor by this number neither overflows nor underflows.
bool is_mild(double scale) { return std::abs(scale) <= 1 && std::abs(scale) >= 0x1p-20; }

// matmul(a, b) · c with a number c: the factor to scale instead, if it is much smaller than the product and the scaling
// of the product could not be fused with other elementwise work.
struct ScaledProduct {
  NodeId product = -1;
  double scale = 1;
  std::size_t factor = 0;
};

class Scales {
 public:
  explicit Scales(const Graph& graph) : graph_(graph), rewriter_(graph), uses_(graph) {}

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const ScaledProduct found = find(id);
      if (found.product < 0)
        rewriter_.copy(id);
      else
        rewrite(id, found);
    }
    return rewriter_.finish();
  }

 private:
  std::int64_t size(ValueId id) const { return graph_.value(id).type.shape.numel(); }

  bool feeds_elements(ValueId id) const {
    const auto& users = uses_.of(id);
    return std::any_of(users.begin(), users.end(), [&](NodeId user) { return graph_.node(user).op->elementwise(); });
  }

  ScaledProduct find(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!is_op(node, "mul") || !is_pure(node) || feeds_elements(node.out[0])) return {};
    for (const std::size_t at : {std::size_t{1}, std::size_t{0}}) {
      const auto scale = uniform_value(graph_, node.in[at]);
      const ValueId result = node.in[1 - at];
      const Node& product = graph_.maker(result);
      if (!scale || !is_mild(*scale) || !is_op(product, "matmul") || !is_pure(product)) continue;
      if (uses_.only(result) != id || graph_.value(result).type != graph_.value(node.out[0]).type) continue;
      const std::size_t smaller = size(product.in[0]) <= size(product.in[1]) ? 0 : 1;
      const DType dtype = graph_.value(result).type.dtype;
      if ((dtype != DType::f32 && dtype != DType::f64) || 4 * size(product.in[smaller]) > size(result)) continue;
      return {graph_.value(result).node, *scale, smaller};
    }
    return {};
  }

  void rewrite(NodeId id, const ScaledProduct& found) {
    const Node& product = graph_.node(found.product);
    Graph& to = rewriter_.to();
    auto in = rewriter_.map({product.in.data(), product.in.size()});
    const DType dtype = graph_.value(product.out[0]).type.dtype;
    const ValueId number =
        to.node(rewriter_.emit(find_op("full"), {}, op::FullAttrs{{}, found.scale, dtype}, found.product)).out[0];
    const ValueId factors[] = {in[found.factor], number};
    in[found.factor] = to.node(rewriter_.emit(find_op("mul"), factors, op::NoAttrs{}, found.product)).out[0];
    const NodeId made = rewriter_.emit(*product.op, {in.data(), in.size()}, product.attrs, found.product);
    to.value(to.node(made).out[0]).layouts = graph_.value(graph_.node(id).out[0]).layouts;
    rewriter_.set(graph_.node(id).out[0], to.node(made).out[0]);
    rewriter_.stands_for(found.product, made);
  }

  const Graph& graph_;
  Rewriter rewriter_;
  Uses uses_;
};

Graph scales(const Graph& graph, const PassContext& context) { return prune(Scales(graph).run(), context); }

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_scales(PassTable& table) {
  table.add({.name = "scales",
             .doc = "scale the smaller factor instead of a large product",
             .order = 1300,
             .run = passes::scales});
}

}  // namespace starling::graph
