#include "starling/graph/match.h"
#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"

namespace starling::graph::passes {
namespace {

constexpr std::int64_t kSmallest = 1 << 16;  // smaller weights are reduced faster than shared
constexpr std::int64_t kGain = 2;            // least ratio of weight size to the factors of all ranks

class Sharing {
 public:
  Sharing(const Graph& graph, int world) : graph_(graph), world_(world), uses_(graph) {}

  // Product whose update at node `id` may be shared; -1: none.
  NodeId product_of(NodeId id) const {
    const Node& update = graph_.node(id);
    if (!is_op(update, "sgd_update") || update.device.kind != DeviceKind::cpu || !update.after.empty()) return -1;
    const bool stored = is_op(graph_.maker(update.in[0]), "variable") && is_op(graph_.maker(update.in[1]), "variable");
    const NodeId product = graph_.value(update.in[2]).node;
    const Node& factors = graph_.node(product);
    if (!stored || update.attrs.as<op::SgdAttrs>().nesterov || !is_op(factors, "matmul")) return -1;
    const auto& flags = factors.attrs.as<op::MatmulAttrs>();
    if (!flags.trans_a || flags.trans_b || !factors.after.empty()) return -1;
    const bool may_move =
        may_be_read_later(graph_, factors.in[0], product, id) && may_be_read_later(graph_, factors.in[1], product, id);
    return may_move && uses_.only(update.in[2]) == id && pays(factors) ? product : -1;
  }

 private:
  bool pays(const Node& factors) const {
    const Shape &a = graph_.value(factors.in[0]).type.shape, &b = graph_.value(factors.in[1]).type.shape;
    if (a.rank() != 2 || b.rank() != 2 || a[1] < world_) return false;
    const std::int64_t weight = a[1] * b[1];
    return weight >= kSmallest && kGain * a[0] * (a[1] + b[1]) <= weight;
  }

  const Graph& graph_;
  int world_;
  Uses uses_;
};

// Runs before partition: turns updates that ranks share by rows (ops/def/attrs/shared_update.h) into matmul_sgd, which
// partition splits that way. Applies to weights whose gradient is a product of factors with fewer elements over all
// ranks than the weight.
Graph shared_updates(const Graph& graph, const PassContext& context) {
  if (context.world == 1 || context.shards > 0) return graph;
  const Sharing sharing(graph, context.world);
  static const OpDef& op = find_op("matmul_sgd");
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const NodeId product = sharing.product_of(id);
    if (product < 0) {
      rewriter.copy(id);
      continue;
    }
    const Node& update = graph.node(id);
    const auto& sgd = update.attrs.as<op::SgdAttrs>();
    const Node& factors = graph.node(product);
    const ValueId old[] = {update.in[0], update.in[1], factors.in[0], factors.in[1], update.in[3]};
    const auto in = rewriter.map(old);
    const NodeId made =
        rewriter.emit(op, {in.data(), in.size()}, op::MatmulSgdAttrs{true, false, sgd.momentum, sgd.weight_decay}, id);
    for (std::size_t i = 0; i < update.out.size(); ++i) rewriter.set(update.out[i], rewriter.to().node(made).out[i]);
    rewriter.stands_for(id, made);
  }
  return rewriter.finish();  // prune drops the product
}

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_shared_updates(PassTable& table) {
  table.add({.name = "shared_updates",
             .doc = "share out updates of weights whose gradient is a product of smaller factors",
             .order = 200,
             .run = passes::shared_updates});
}

}  // namespace starling::graph
