#include "starling/graph/graph.h"

#include <algorithm>
#include <ostream>

#include "starling/base/error.h"
#include "starling/graph/control/control_types.h"
#include "starling/graph/printer.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/scopes/comm_world.h"

namespace starling::graph {

std::string name(Lane lane) {
  const char* kind = is_comm(lane) ? "comm" : "compute";
  const int number = static_cast<int>(lane) / 2;
  return number == 0 ? kind : fmt::format("{}{}", kind, number);
}

NodeId Graph::add(const OpDef& op, std::span<const ValueId> in, const Attrs& attrs) {
  Types types;
  types.reserve(in.size());
  for (ValueId id : in) types.push_back(value(id).type);
  const Types out = infer_node(*this, op, {types.data(), types.size()}, attrs);
  const NodeId id = size();
  Node node;
  node.op = &op;
  node.attrs = attrs;
  node.in = SmallVector<ValueId, 4>(in);
  for (std::size_t i = 0; i < out.size(); ++i) {
    node.out.push_back(static_cast<ValueId>(values_.size()));
    values_.push_back({out[i], id, static_cast<int>(i), {}, {}});
  }
  nodes_.push_back(std::move(node));
  return id;
}

NodeId Graph::add(const OpDef& op, std::span<const ValueId> in, const Attrs& attrs, const Node& like) {
  const Symbol scope = like.scope;
  const Device device = like.device;
  const NodeId origin = like.origin;
  const Lane lane = like.lane;
  const bool pinned = like.pinned;
  const NodeId id = add(op, in, attrs);
  Node& made = node(id);
  made.scope = scope;
  made.device = device;
  made.origin = origin;
  made.lane = lane;
  made.pinned = pinned;
  return id;
}

namespace {

Attrs source_attrs(std::size_t index, const TensorType& type) {
  return op::SourceAttrs{static_cast<std::int64_t>(index), type.shape, type.dtype};
}

}  // namespace

ValueId Graph::add_input(const TensorType& type) {
  static const OpDef& op = find_op("input");
  const NodeId id = add(op, {}, source_attrs(inputs.size(), type));
  inputs.push_back(node(id).out[0]);
  return inputs.back();
}

ValueId Graph::add_constant(const Tensor& tensor) {
  static const OpDef& op = find_op("constant");
  const NodeId id = add(op, {}, source_attrs(constants.size(), tensor.type()));
  constants.push_back(tensor);
  return node(id).out[0];
}

int Graph::add_variable(GraphVariable variable) {
  variables.push_back(std::move(variable));
  return static_cast<int>(variables.size()) - 1;
}

ValueId Graph::read(int variable) {
  static const OpDef& op = find_op("variable");
  const auto index = static_cast<std::size_t>(variable);
  return node(add(op, {}, source_attrs(index, variables[index].type))).out[0];
}

int Graph::add_body(std::shared_ptr<const Graph> body) {
  const auto known = std::find(bodies.begin(), bodies.end(), body);
  if (known != bodies.end()) return static_cast<int>(known - bodies.begin());
  bodies.push_back(std::move(body));
  return static_cast<int>(bodies.size()) - 1;
}

std::vector<std::vector<NodeId>> Graph::users() const {
  std::vector<std::vector<NodeId>> users(values_.size());
  for (NodeId id = 0; id < size(); ++id) {
    for (ValueId in : node(id).in) {
      auto& list = users[static_cast<std::size_t>(in)];
      if (list.empty() || list.back() != id) list.push_back(id);
    }
  }
  return users;
}

bool is_op(const Node& node, std::string_view name) { return node.op->name == name; }

bool is_source(const Node& node) { return node.op->attrs == &attr_type<op::SourceAttrs>(); }

bool has_effect(const Node& node) { return node.op->stateful && !is_source(node) && !is_op(node, "assign"); }

Symbol comm_group(const Node& node) { return comm_group(*node.op, node.attrs); }

std::int64_t source_index(const Node& node) {
  if (is_source(node)) return node.attrs.as<op::SourceAttrs>().index;
  return node.attrs.as<op::AssignAttrs>().index;
}

std::ostream& operator<<(std::ostream& out, const Graph& graph) { return out << print(graph); }

}  // namespace starling::graph
