#include "starling/graph/next_forward.h"

#include <algorithm>
#include <map>

#include "starling/graph/control/control_types.h"
#include "starling/graph/dependencies.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/state.h"

namespace starling::graph {
namespace {

constexpr std::string_view kPrefix = "deferred:";

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Nodes that may be left to the next run.
struct Parts {
  std::vector<bool> trailing;  // collectives whose results nothing in this run needs
  std::vector<bool> deferred;  // nodes that wait for those
  bool any = false;
};

// Nodes that must have ended when the run returns: results, effects, and inputs of collectives.
std::vector<bool> needed_now(const Graph& graph, const std::vector<std::vector<NodeId>>& before) {
  std::vector<bool> needed(graph.nodes().size());
  for (ValueId out : graph.outputs) needed[at(graph.value(out).node)] = true;
  for (NodeId id = graph.size() - 1; id >= 0; --id) {
    const Node& node = graph.node(id);
    if (acts_outside(graph, node)) needed[at(id)] = true;
    if (!needed[at(id)] && !node.op->comm) continue;
    for (NodeId first : before[at(id)]) needed[at(first)] = true;
  }
  return needed;
}

Parts find_parts(const Graph& graph, const std::vector<std::vector<NodeId>>& before) {
  const std::vector<bool> needed = needed_now(graph, before);
  Parts parts{std::vector<bool>(graph.nodes().size()), std::vector<bool>(graph.nodes().size())};
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.node(id).op->comm) {
      parts.trailing[at(id)] = !needed[at(id)];
      continue;
    }
    parts.deferred[at(id)] = std::any_of(before[at(id)].begin(), before[at(id)].end(), [&](NodeId first) {
      return parts.trailing[at(first)] || parts.deferred[at(first)];
    });
    parts.any = parts.any || parts.deferred[at(id)];
  }
  return parts;
}

class Turning {
 public:
  Turning(const Graph& graph, const std::vector<std::vector<NodeId>>& before, Parts parts)
      : graph_(graph),
        before_(before),
        parts_(std::move(parts)),
        rewriter_(graph),
        deferred_values_(graph.values().size(), -1),
        made_(graph.nodes().size(), -1),
        copied_(graph.nodes().size()) {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (is_op(node, "assign"))
        (parts_.deferred[at(id)] ? deferred_assigns_ : own_assigns_)[source_index(node)].push_back(id);
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!parts_.deferred[at(id)]) continue;
      for (ValueId in : graph_.node(id).in) {
        if (crosses(in)) readers_[in].push_back(id);
      }
    }
  }

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (is_op(graph_.node(id), "constant")) copy(id);
    }
    for (const auto& [value, readers] : readers_) add_variable(value);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!parts_.deferred[at(id)] && !follows_update(id)) copy(id);
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (parts_.deferred[at(id)]) update(id);
    }
    for (const auto& [value, readers] : readers_) {
      if (!parts_.trailing[at(graph_.value(value).node)]) keep(value, Lane::compute);
    }
    for (ValueId out : graph_.outputs) copy(graph_.value(out).node);
    Graph made = rewriter_.finish();
    made.targets[std::string(kDeferredUpdates)] = updates_;
    return made;
  }

 private:
  // True for reads of variables that only the updates write: forward readers come after the update, and the updates
  // read them in place.
  bool updated(const Node& node) const {
    return is_op(node, "variable") && deferred_assigns_.contains(source_index(node)) &&
           !own_assigns_.contains(source_index(node));
  }

  // Read of such a variable, or a view of one: emitted when first needed.
  bool follows_update(NodeId id) const {
    const Node& node = graph_.node(id);
    return updated(node) || (node.op->view && follows_update(graph_.value(node.in[0]).node));
  }

  // True if a value is carried from one run to the next.
  bool crosses(ValueId value) const {
    const NodeId maker = graph_.value(value).node;
    return !parts_.deferred[at(maker)] && !is_op(graph_.node(maker), "constant") && !follows_update(maker);
  }

  void add_variable(ValueId value) {
    std::string name = fmt::format("{}{}", kPrefix, variables_.size());
    variables_[value] =
        rewriter_.to().add_variable({.name = std::move(name), .type = graph_.value(value).type, .tensor = {}});
  }

  // Emits a node of the step itself, once, after the updates that must precede it.
  void copy(NodeId id) {
    if (copied_[at(id)]) return;
    copied_[at(id)] = true;
    const Node& node = graph_.node(id);
    if (is_op(node, "variable") || is_op(node, "assign")) {
      const auto found = deferred_assigns_.find(source_index(node));
      for (std::size_t i = 0; found != deferred_assigns_.end() && i < found->second.size(); ++i)
        update(found->second[i]);
    }
    for (ValueId in : node.in) copy(graph_.value(in).node);
    if (parts_.trailing[at(id)]) {
      for (ValueId out : node.out) update_readers(out);
    }
    rewriter_.copy(id);
    if (!parts_.trailing[at(id)]) return;
    for (ValueId out : node.out) {
      if (readers_.contains(out)) keep(out, node.lane);
    }
  }

  void update_readers(ValueId value) {
    const auto found = readers_.find(value);
    if (found == readers_.end()) return;
    for (NodeId reader : found->second) update(reader);
  }

  // Stores a value for the updates of the next run.
  void keep(ValueId value, Lane lane) {
    static const OpDef& assign = find_op("assign");
    const ValueId now = rewriter_.map(value);
    const NodeId made = rewriter_.to().add(assign, {&now, 1}, op::AssignAttrs{variables_.at(value)});
    Node& node = rewriter_.to().node(made);
    node.device = graph_.maker(value).device;
    node.lane = lane;
  }

  // Emits a node of the updates, once, after its dependencies.
  void update(NodeId id) {
    if (made_[at(id)] >= 0) return;
    for (NodeId first : before_[at(id)]) {
      if (parts_.deferred[at(first)]) update(first);
    }
    const Node& node = graph_.node(id);
    std::vector<ValueId> in;
    for (ValueId value : node.in) in.push_back(deferred_value(value));
    emit_update(id, in);
  }

  NodeId emit_update(NodeId id, std::span<const ValueId> in) {
    const Node& node = graph_.node(id);
    const NodeId made = rewriter_.to().add(*node.op, in, node.attrs, node);
    Node& copy = rewriter_.to().node(made);
    copy.origin = -1;
    copy.after.clear();
    for (NodeId first : node.after) {
      if (made_[at(first)] >= 0) copy.after.push_back(made_[at(first)]);
    }
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      deferred_values_[at(node.out[i])] = copy.out[i];
      rewriter_.to().value(copy.out[i]).layouts = graph_.value(node.out[i]).layouts;
    }
    made_[at(id)] = made;
    updates_.push_back(made);
    return made;
  }

  // Operand of an update, as available in the next run before the update.
  ValueId deferred_value(ValueId value) {
    if (deferred_values_[at(value)] >= 0) return deferred_values_[at(value)];
    const NodeId maker = graph_.value(value).node;
    const Node& node = graph_.node(maker);
    if (is_op(node, "constant")) return rewriter_.map(value);
    if (const auto found = variables_.find(value); found != variables_.end()) {
      const ValueId read = rewriter_.to().read(found->second);
      const NodeId made = rewriter_.to().value(read).node;
      rewriter_.to().node(made).device = node.device;
      updates_.push_back(made);
      return deferred_values_[at(value)] = read;
    }
    std::vector<ValueId> in;
    for (ValueId operand : node.in) in.push_back(deferred_value(operand));
    emit_update(maker, in);
    return deferred_values_[at(value)];
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>>& before_;
  Parts parts_;
  Rewriter rewriter_;
  std::map<std::int64_t, std::vector<NodeId>> deferred_assigns_, own_assigns_;  // by variable
  std::map<ValueId, std::vector<NodeId>> readers_;  // by carried value: updates that read it
  std::map<ValueId, int> variables_;                // deferred variable of each carried value
  std::vector<ValueId> deferred_values_;            // values as the updates see them
  std::vector<NodeId> made_;                        // emitted nodes of the updates
  std::vector<bool> copied_;                        // emitted nodes of the step itself
  std::vector<NodeId> updates_;
};

// Requires one compute lane and one comm lane, on the CPU: other devices order their work themselves.
bool can_be_turned(const Graph& graph, const PassContext& context) {
  return context.program.overlap && std::all_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
           return node.device.kind == DeviceKind::cpu &&
                  (node.op->comm ? node.lane == Lane::comm : node.lane == Lane::compute);
         });
}

std::vector<Pass> make_passes() {
  std::vector<Pass> list = all_passes();
  for (Pass& pass : list) {
    if (pass.name == "buckets") pass.run = passes::buckets_by_first_use;
    if (pass.name == "fused_optimizer") pass.run = passes::fused_optimizer_by_exchange;
  }
  list.push_back({.name = "next_forward",
                  .doc = "leave updates to the next run, so that exchanges go on while it runs forward",
                  .order = list.back().order + 100,
                  .run = passes::next_forward});
  return list;
}

}  // namespace

bool is_deferred(const GraphVariable& variable) { return variable.name.starts_with(kPrefix); }

const std::vector<Pass>& passes_for_next_forward() {
  static const std::vector<Pass> list = make_passes();
  return list;
}

namespace passes {

Graph next_forward(const Graph& graph, const PassContext& context) {
  if (!can_be_turned(graph, context)) return graph;
  const auto before = dependencies(graph, CommOrder::free);
  Parts parts = find_parts(graph, before);
  if (!parts.any) return graph;
  return Turning(graph, before, std::move(parts)).run();
}

}  // namespace passes
}  // namespace starling::graph
