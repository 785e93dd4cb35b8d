#include "starling/graph/extract.h"

#include <set>
#include <unordered_map>

#include "starling/base/error.h"
#include "starling/graph/control/control_bodies.h"
#include "starling/graph/control/control_types.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/state.h"

namespace starling::graph {
namespace {

class Extractor {
 public:
  Extractor(const Graph& from, const Extraction& wanted, const Edges& edges)
      : from_(from),
        wanted_(wanted),
        edges_(edges),
        needed_(from.nodes().size(), false),
        values_(from.values().size(), -1),
        nodes_(from.nodes().size(), -1) {
    to_.bodies = from.bodies;
  }

  Graph run() {
    for (ValueId id : wanted_.feeds) feed(id);
    for (ValueId id : wanted_.fetches) need_value(id, id);
    for (NodeId id : wanted_.targets) need(id, -1);
    for (NodeId id = 0; id < from_.size(); ++id) {
      if (needed_[static_cast<std::size_t>(id)]) copy(id);
    }
    for (ValueId id : wanted_.fetches) to_.outputs.push_back(values_[static_cast<std::size_t>(id)]);
    drop_unused_bodies(to_);
    return std::move(to_);
  }

 private:
  void feed(ValueId id) {
    ValueId& made = values_[static_cast<std::size_t>(id)];
    check(made < 0, "[session] expected each edge to be fed once, got {} twice", edges_.describe(id));
    const Value& value = from_.value(id);
    made = to_.add_input(value.type);
    to_.node(to_.value(made).node).device = from_.maker(id).device;
    to_.value(made).name = value.name;
  }

  void need_value(ValueId id, ValueId fetch) {
    if (values_[static_cast<std::size_t>(id)] < 0) need(from_.value(id).node, fetch);
  }

  // Marks a node and its dependencies, without recursion: graphs are deep. `fetch` is what asked for it; -1: a target.
  void need(NodeId first, ValueId fetch) {
    std::vector<NodeId> open{first};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (needed_[static_cast<std::size_t>(id)]) continue;
      needed_[static_cast<std::size_t>(id)] = true;
      const Node& node = from_.node(id);
      if (is_op(node, "input")) unfed(node.out[0], fetch);
      for (ValueId in : node.in) {
        if (values_[static_cast<std::size_t>(in)] < 0) open.push_back(from_.value(in).node);
      }
      for (NodeId before : node.after) open.push_back(before);
    }
  }

  [[noreturn]] void unfed(ValueId id, ValueId fetch) const {
    fail("[session] expected placeholder {} of {} to be fed, since {} needs it, got no value for it",
         edges_.describe(id), to_string(from_.value(id).type), fetch < 0 ? "a target" : edges_.describe(fetch));
  }

  Attrs attrs_of(const Node& node) {
    if (is_op(node, "assign")) return op::AssignAttrs{variable(source_index(node))};
    if (!is_source(node)) return node.attrs;
    auto attrs = node.attrs.as<op::SourceAttrs>();
    attrs.index = is_op(node, "variable") ? variable(attrs.index) : constant(attrs.index);
    return attrs;
  }

  std::int64_t variable(std::int64_t old) {
    const auto [it, fresh] = variables_.try_emplace(old, static_cast<std::int64_t>(to_.variables.size()));
    if (fresh) {
      to_.variables.push_back(from_.variables[static_cast<std::size_t>(old)]);
      to_.variables.back().init = -1;
    }
    return it->second;
  }

  std::int64_t constant(std::int64_t old) {
    const auto [it, fresh] = constants_.try_emplace(old, static_cast<std::int64_t>(to_.constants.size()));
    if (fresh) to_.constants.push_back(from_.constants[static_cast<std::size_t>(old)]);
    return it->second;
  }

  void copy(NodeId id) {
    const Node& node = from_.node(id);
    SmallVector<ValueId, 4> in;
    for (ValueId value : node.in) in.push_back(values_[static_cast<std::size_t>(value)]);
    const NodeId made = to_.add(*node.op, {in.data(), in.size()}, attrs_of(node), node);
    nodes_[static_cast<std::size_t>(id)] = made;
    Node& copy = to_.node(made);
    copy.origin = node.origin >= 0 ? nodes_[static_cast<std::size_t>(node.origin)] : -1;
    for (NodeId before : node.after) copy.after.push_back(nodes_[static_cast<std::size_t>(before)]);
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      ValueId& value = values_[static_cast<std::size_t>(node.out[i])];
      if (value >= 0) continue;  // fed: readers use the feed
      value = copy.out[i];
      to_.value(value).layouts = from_.value(node.out[i]).layouts;
      to_.value(value).name = from_.value(node.out[i]).name;
    }
  }

  const Graph& from_;
  const Extraction& wanted_;
  const Edges& edges_;
  Graph to_;
  std::vector<bool> needed_;
  std::vector<ValueId> values_;
  std::vector<NodeId> nodes_;
  std::unordered_map<std::int64_t, std::int64_t> variables_, constants_;
};

// Copies the subgraph of a value, depth first; `made` records existing copies.
class InitialValue {
 public:
  explicit InitialValue(const Graph& from) : from_(from), values_(from.values().size(), -1) {
    to_.bodies = from.bodies;
  }

  Graph run(ValueId value) {
    to_.outputs = {at(value)};
    drop_unused_bodies(to_);
    return std::move(to_);
  }

 private:
  ValueId at(ValueId id) {
    ValueId& made = values_[static_cast<std::size_t>(id)];
    if (made >= 0) return made;
    const Node& node = from_.maker(id);
    if (is_source(node)) return made = source(node);
    SmallVector<ValueId, 4> in;
    for (ValueId operand : node.in) in.push_back(at(operand));
    check(!has_effects(from_, node),
          "[graph] expected the first value of a variable to be made of values alone, got {}", node.op->name);
    const NodeId copy = to_.add(*node.op, {in.data(), in.size()}, node.attrs, node);
    to_.node(copy).origin = -1;
    for (std::size_t i = 0; i < node.out.size(); ++i)
      values_[static_cast<std::size_t>(node.out[i])] = to_.node(copy).out[i];
    return values_[static_cast<std::size_t>(id)];
  }

  ValueId source(const Node& node) {
    const auto index = static_cast<std::size_t>(source_index(node));
    if (is_op(node, "constant")) return constant(from_.constants[index], node);
    check(!is_op(node, "input"),
          "[graph] expected the first value of a variable not to depend on a placeholder, got '{}'",
          from_.value(node.out[0]).name.str());
    const auto& variable = from_.variables[index];
    if (variable.init >= 0) {
      check(entered_.insert(index).second, "[graph] expected variable '{}' to begin with something else than itself",
            variable.name);
      const ValueId made = at(variable.init);
      entered_.erase(index);
      return made;
    }
    check(variable.tensor.defined(), "[graph] expected variable '{}' to have a first value to begin another with",
          variable.name);
    const Tensor now = empty(variable.type.shape, variable.type.dtype, variable.tensor.device());
    copy_into(now, variable.tensor);
    return constant(now, node);
  }

  ValueId constant(const Tensor& tensor, const Node& like) {
    const ValueId id = to_.add_constant(tensor);
    to_.node(to_.value(id).node).device = like.device;
    return id;
  }

  std::set<std::size_t> entered_;  // variables whose initial values are being made
  const Graph& from_;
  Graph to_;
  std::vector<ValueId> values_;
};

}  // namespace

Graph extract(const Graph& graph, const Extraction& wanted, const Edges& edges) {
  return Extractor(graph, wanted, edges).run();
}

bool stands_alone(const Graph& graph, ValueId value) {
  std::set<NodeId> seen;
  std::vector<ValueId> open{value};
  while (!open.empty()) {
    const NodeId id = graph.value(open.back()).node;
    open.pop_back();
    if (!seen.insert(id).second) continue;
    const Node& node = graph.node(id);
    if ((is_source(node) && !is_op(node, "constant")) || has_effects(graph, node)) return false;
    for (ValueId in : node.in) open.push_back(in);
  }
  return true;
}

Graph initial_value(const Graph& graph, ValueId value) { return InitialValue(graph).run(value); }

}  // namespace starling::graph
