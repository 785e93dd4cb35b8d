#include "starling/graph/placement/cut.h"

#include <algorithm>
#include <map>

#include "starling/base/error.h"
#include "starling/graph/placement/tasks.h"
#include "starling/graph/rewriter.h"
#include "starling/graph/verifier.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/attrs/transfer.h"
#include "starling/ops/def/registry.h"

namespace starling::graph {
namespace {

using Kind = PlacedStep::Kind;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Value of the whole graph, or the completion of a node (output -1).
using Sent = std::pair<NodeId, int>;

class Cutter {
 public:
  Cutter(const Graph& graph, const DevicePlacement& placement, const PlacementOptions& options, int home)
      : graph_(graph), placement_(placement), options_(options), home_(home) {
    for (std::size_t d = 0; d < placement.steps.size(); ++d) {
      for (const auto& step : placement.steps[d]) {
        if (step.kind == Kind::receive) destinations_[{step.node, step.output}].push_back(static_cast<int>(d));
      }
    }
  }

  std::vector<GraphPart> run() {
    std::vector<GraphPart> parts;
    for (int d = 0; d < static_cast<int>(placement_.steps.size()); ++d) parts.push_back(part(d));
    return parts;
  }

 private:
  Device device(int d) const { return options_.devices[at(d)].device; }

  GraphPart part(int d) {
    made_ = {};
    made_.graph = skeleton();
    device_ = d;
    values_.assign(graph_.values().size(), -1);
    nodes_.assign(graph_.nodes().size(), -1);
    news_.assign(graph_.nodes().size(), -1);
    variables_.assign(graph_.variables.size(), -1);
    constants_.assign(graph_.constants.size(), -1);
    for (const auto& step : placement_.steps[at(d)]) {
      switch (step.kind) {
        case Kind::run: run_node(step.node); break;
        case Kind::receive: receive(step); break;
        case Kind::release: release(step); break;
      }
    }
    if (d == home_) {
      for (ValueId out : graph_.outputs) made_.graph.outputs.push_back(local(out));
    }
    order_inputs();
    verify(made_.graph, "the cut for " + to_string(device(d)));
    return std::move(made_);
  }

  // Copy of the graph without nodes, variables and constants; the latter are added when used.
  Graph skeleton() const {
    Rewriter rewriter(graph_);
    Graph empty = rewriter.to();
    empty.variables.clear();
    empty.constants.clear();
    return empty;
  }

  // Local value of one of the whole graph: duplicated views and constants are made at their first use.
  ValueId local(ValueId id) {
    ValueId& known = values_[at(id)];
    if (known >= 0) return known;
    const NodeId maker = graph_.value(id).node;
    check(placement_.of_node[at(maker)] < 0, "[cut] expected %{} to be on {} before it is read, got no receipt", id,
          to_string(device(device_)));
    copy(maker);
    return values_[at(id)];
  }

  void run_node(NodeId id) {
    if (id < 0) return;
    copy(id);
    const Node& node = graph_.node(id);
    send({id, -1});
    for (std::size_t i = 0; i < node.out.size(); ++i) send({id, static_cast<int>(i)});
  }

  void copy(NodeId id) {
    const Node& node = graph_.node(id);
    SmallVector<ValueId, 4> in;
    for (ValueId value : node.in) in.push_back(local(value));
    const NodeId made = add(*node.op, {in.data(), in.size()}, attributes(node), node);
    nodes_[at(id)] = made;
    Node& copied = made_.graph.node(made);
    copied.origin = node.origin >= 0 ? nodes_[at(node.origin)] : -1;
    for (NodeId other : node.after) wait_for(copied, other);
    for (std::size_t i = 0; i < node.out.size(); ++i) values_[at(node.out[i])] = copied.out[i];
    if (is_op(node, "input")) {
      made_.inputs.push_back(static_cast<int>(source_index(node)));
      made_.graph.inputs.push_back(copied.out[0]);
    }
  }

  void wait_for(Node& node, NodeId other) const {
    const NodeId here = nodes_[at(other)] >= 0 ? nodes_[at(other)] : news_[at(other)];
    if (here >= 0) node.after.push_back(here);
  }

  NodeId add(const OpDef& op, std::span<const ValueId> in, const Attrs& attrs, const Node& like) {
    const NodeId id = made_.graph.add(op, in, attrs, like);
    Node& node = made_.graph.node(id);
    node.device = device(device_);
    node.pinned = false;
    node.lane = Lane::compute;
    node.origin = -1;
    return id;
  }

  // Attributes with sources and assigns renumbered for the part.
  Attrs attributes(const Node& node) {
    if (is_op(node, "assign")) return op::AssignAttrs{local_variable(source_index(node))};
    if (!is_source(node)) return node.attrs;
    op::SourceAttrs source = node.attrs.as<op::SourceAttrs>();
    if (is_op(node, "input")) {
      source.index = static_cast<std::int64_t>(made_.inputs.size());
    } else if (is_op(node, "variable")) {
      source.index = local_variable(source.index);
    } else {
      int& known = constants_[static_cast<std::size_t>(source.index)];
      if (known < 0) {
        known = static_cast<int>(made_.graph.constants.size());
        made_.graph.constants.push_back(graph_.constants[static_cast<std::size_t>(source.index)]);
      }
      source.index = known;
    }
    return source;
  }

  std::int64_t local_variable(std::int64_t index) {
    int& known = variables_[static_cast<std::size_t>(index)];
    if (known < 0) {
      GraphVariable variable = graph_.variables[static_cast<std::size_t>(index)];
      variable.init = -1;  // already initialised
      known = made_.graph.add_variable(std::move(variable));
      made_.variables.push_back(static_cast<int>(index));
    }
    return known;
  }

  Symbol key(const Sent& sent, int to) const {
    const Node& node = graph_.node(sent.first);
    return Symbol(sent.second < 0
                      ? fmt::format("#{}>{}", sent.first, to_string(device(to)))
                      : fmt::format("%{}>{}", node.out[static_cast<std::size_t>(sent.second)], to_string(device(to))));
  }

  void send(const Sent& sent) {
    static const OpDef& op = find_op("send");
    const auto found = destinations_.find(sent);
    if (found == destinations_.end()) return;
    const Node& node = graph_.node(sent.first);
    for (int to : found->second) {
      const Attrs attrs = op::SendAttrs{key(sent, to), Symbol(to_string(device(to)))};
      if (sent.second >= 0) {
        const ValueId value = values_[at(node.out[static_cast<std::size_t>(sent.second)])];
        add(op, {&value, 1}, attrs, node);
      } else {
        const NodeId made = add(op, {}, attrs, node);
        made_.graph.node(made).after.push_back(nodes_[at(sent.first)]);
      }
    }
  }

  void receive(const PlacedStep& step) {
    static const OpDef& op = find_op("recv");
    const Node& node = graph_.node(step.node);
    const Symbol from(to_string(device(placement_.of_node[at(step.node)])));
    const Symbol name = key({step.node, step.output}, device_);
    if (step.output < 0) {
      news_[at(step.node)] = add(op, {}, op::RecvAttrs{name, from, Shape{0}, DType::u8}, node);
      return;
    }
    const ValueId value = node.out[static_cast<std::size_t>(step.output)];
    const TensorType& type = graph_.value(value).type;
    const NodeId made = add(op, {}, op::RecvAttrs{name, from, type.shape, type.dtype}, node);
    values_[at(value)] = made_.graph.node(made).out[0];
  }

  void release(const PlacedStep& step) {
    static const OpDef& op = find_op("release");
    const Node& node = graph_.node(step.node);
    const ValueId value = values_[at(node.out[static_cast<std::size_t>(step.output)])];
    add(op, {&value, 1}, op::NoAttrs{}, node);
  }

  // Restores the caller's order of inputs, which were numbered in the order of the schedule.
  void order_inputs() {
    std::vector<std::size_t> order(made_.inputs.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return made_.inputs[a] < made_.inputs[b]; });
    std::vector<int> inputs;
    std::vector<ValueId> values;
    for (std::size_t i : order) {
      const ValueId value = made_.graph.inputs[i];
      Node& node = made_.graph.node(made_.graph.value(value).node);
      op::SourceAttrs source = node.attrs.as<op::SourceAttrs>();
      source.index = static_cast<std::int64_t>(values.size());
      node.attrs = source;
      inputs.push_back(made_.inputs[i]);
      values.push_back(value);
    }
    made_.inputs = inputs;
    made_.graph.inputs = values;
  }

  const Graph& graph_;
  const DevicePlacement& placement_;
  const PlacementOptions& options_;
  int home_;
  std::map<Sent, std::vector<int>> destinations_;
  // State of the part being made:
  GraphPart made_;
  int device_ = 0;
  std::vector<ValueId> values_;
  std::vector<NodeId> nodes_;
  std::vector<NodeId> news_;
  std::vector<int> variables_;
  std::vector<int> constants_;
};

}  // namespace

std::vector<GraphPart> cut(const Graph& graph, const DevicePlacement& placement, const PlacementOptions& options,
                           int home) {
  return Cutter(graph, placement, options, home).run();
}

}  // namespace starling::graph
