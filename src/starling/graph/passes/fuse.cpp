#include <algorithm>
#include <queue>
#include <unordered_map>

#include "starling/graph/dependencies.h"
#include "starling/graph/fusion_groups.h"
#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/fused.h"
#include "starling/ops/registry.h"

namespace starling::passes {
namespace {

// The steps of a group; values are numbered operands first, then one a member.
FusedProgram program_of(const Graph& graph, const FusionGroup& group) {
  std::unordered_map<ValueId, int> number;
  for (ValueId id : group.operands) number.emplace(id, static_cast<int>(number.size()));
  FusedProgram program{static_cast<int>(group.operands.size()), {}, {}};
  for (NodeId id : group.members) {
    const Node& node = graph.node(id);
    FusedStep step{.op = node.op};
    for (double attribute : numbers_of(node.attrs)) step.attributes.push_back(attribute);
    for (ValueId in : node.in) step.in.push_back(number.at(in));
    program.steps.push_back(std::move(step));
    number.emplace(node.out[0], static_cast<int>(number.size()));
  }
  for (ValueId id : group.outputs) program.outputs.push_back(number.at(id));
  return program;
}

class Fuser {
 public:
  explicit Fuser(const Graph& graph)
      : graph_(graph), rewriter_(graph), before_(dependencies(graph)), found_(fusion_groups(graph, before_)) {}

  Graph run() {
    for (NodeId id : order()) {
      const int group = found_.group_of[static_cast<std::size_t>(id)];
      if (group < 0)
        rewriter_.copy(id);
      else
        emit(found_.groups[static_cast<std::size_t>(group)]);
    }
    return rewriter_.finish();
  }

 private:
  // The node that a group stands at: its first.
  NodeId place(NodeId id) const {
    const int group = found_.group_of[static_cast<std::size_t>(id)];
    return group < 0 ? id : found_.groups[static_cast<std::size_t>(group)].members.front();
  }

  // Places in an order in which they may run, as close to the old one as can be.
  std::vector<NodeId> order() const {
    std::vector<std::vector<NodeId>> next(graph_.nodes().size());
    std::vector<int> waits(graph_.nodes().size());
    for (NodeId id = 0; id < graph_.size(); ++id) {
      for (NodeId first : before_[static_cast<std::size_t>(id)]) {
        if (place(first) == place(id)) continue;
        next[static_cast<std::size_t>(place(first))].push_back(place(id));
        ++waits[static_cast<std::size_t>(place(id))];
      }
    }
    std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (place(id) == id && waits[static_cast<std::size_t>(id)] == 0) ready.push(id);
    }
    std::vector<NodeId> order;
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (NodeId id : next[static_cast<std::size_t>(order.back())]) {
        if (--waits[static_cast<std::size_t>(id)] == 0) ready.push(id);
      }
    }
    return order;
  }

  const Shape& shape(ValueId id) { return rewriter_.to().value(id).type.shape; }

  // Operands that were stretched beforehand are read as they were, as long as the others still span the shape.
  void unstretch(std::vector<ValueId>& operands, const Shape& whole) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Node& maker = rewriter_.to().maker(operands[i]);
      if (!is_op(maker, "broadcast_to")) continue;
      const ValueId stretched = std::exchange(operands[i], maker.in[0]);
      Shape spanned;
      for (ValueId id : operands) spanned = broadcast_shapes(spanned, shape(id), "fuse");
      if (spanned != whole) operands[i] = stretched;
    }
  }

  void emit(const FusionGroup& group) {
    static const OpDef& op = find_op("fused");
    std::vector<ValueId> in;
    for (ValueId id : group.operands) in.push_back(rewriter_.map(id));
    unstretch(in, graph_.value(group.outputs[0]).type.shape);
    const NodeId made =
        rewriter_.emit(op, in, FusedAttrs{Symbol(program_of(graph_, group).print())}, group.members.front());
    for (NodeId id : group.members) rewriter_.stands_for(id, made);
    for (std::size_t i = 0; i < group.outputs.size(); ++i) {
      const ValueId fresh = rewriter_.to().node(made).out[i];
      rewriter_.set(group.outputs[i], fresh);
      rewriter_.to().value(fresh).spec = graph_.value(group.outputs[i]).spec;
    }
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<std::vector<NodeId>> before_;
  FusionGroups found_;
};

}  // namespace

// A broadcast_to that lost its last reader goes too.
Graph fuse(const Graph& graph, const PassContext& context) { return prune(Fuser(graph).run(), context); }

}  // namespace starling::passes
