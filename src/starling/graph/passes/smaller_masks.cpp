#include "starling/graph/pass.h"
#include "starling/graph/passes/prune.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/def/registry.h"

namespace starling::graph::passes {
namespace {

// relu_backward(max_pool_backward(dy, index), y) where y was pooled to p: only the largest element of each window has a
// gradient, and it is positive exactly where p is. So the result equals max_pool_backward(relu_backward(dy, p), index)
// bit for bit: the mask is read from the smaller p, and y is not kept.
class SmallerMasks {
 public:
  explicit SmallerMasks(const Graph& graph) : graph_(graph), rewriter_(graph), users_(graph.users()) {
    for (ValueId id : graph.outputs) users_[static_cast<std::size_t>(id)].push_back(graph.size());
  }

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!swap(id)) rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  // Pooling of y with positions `index`, or -1.
  NodeId pooling(ValueId y, ValueId index) const {
    const Value& places = graph_.value(index);
    const Node& pool = graph_.node(places.node);
    const bool of_y = places.output == 1 && pool.op->name.find("max_pool") != std::string::npos && pool.in[0] == y;
    return of_y ? places.node : -1;
  }

  bool swap(NodeId id) {
    const Node& mask = graph_.node(id);
    if (!is_op(mask, "relu_backward") || !mask.after.empty()) return false;
    const ValueId spread = mask.in[0];
    const Node& back = graph_.maker(spread);
    if (!is_op(back, "max_pool_backward") || !back.after.empty() ||
        users_[static_cast<std::size_t>(spread)].size() != 1)
      return false;
    const NodeId pool = pooling(mask.in[1], back.in[1]);
    if (pool < 0 || graph_.node(pool).device != mask.device || back.device != mask.device) return false;
    const ValueId pooled = graph_.node(pool).out[0];
    if (graph_.value(back.in[0]).type != graph_.value(pooled).type) return false;
    const ValueId small[] = {rewriter_.map(back.in[0]), rewriter_.map(pooled)};
    const ValueId masked = rewriter_.to().node(rewriter_.emit(*mask.op, small, mask.attrs, id)).out[0];
    rewriter_.to().value(masked).layouts = graph_.value(back.in[0]).layouts;
    const ValueId wide[] = {masked, rewriter_.map(back.in[1])};
    const ValueId made =
        rewriter_.to().node(rewriter_.emit(*back.op, wide, back.attrs, graph_.value(spread).node)).out[0];
    rewriter_.to().value(made).layouts = graph_.value(mask.out[0]).layouts;
    rewriter_.set(mask.out[0], made);
    return true;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<std::vector<NodeId>> users_;
};

// prune drops the old gradient of the pooling.
Graph smaller_masks(const Graph& graph, const PassContext& context) {
  return prune(SmallerMasks(graph).run(), context);
}

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_smaller_masks(PassTable& table) {
  table.add({.name = "smaller_masks",
             .doc = "take the mask of relu from what was pooled, so that the whole is not kept",
             .order = 1500,
             .run = passes::smaller_masks});
}

}  // namespace starling::graph
