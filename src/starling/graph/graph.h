#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "starling/ops/op_def.h"
#include "starling/ops/sharding.h"

namespace starling {

using ValueId = int;
using NodeId = int;

// Which queue of work a node goes to when a program runs. Lanes run side by side, each in order. Independent branches
// may go to further compute lanes, numbered from 1.
enum class Lane : std::uint8_t { compute, comm };
constexpr int kMostBranches = 16;
constexpr Lane compute_lane(int number) { return number == 0 ? Lane::compute : static_cast<Lane>(number + 1); }
std::string name(Lane lane);

// A result of a node. `spec` says where it lies on the mesh, one placement an axis; empty: replicated. `name` is what
// users feed and fetch it by; empty: none.
struct Value {
  TensorType type;
  NodeId node = -1;
  int output = 0;
  Placements spec;
  Symbol name{};
};

// One application of an op: data, never a closure.
struct Node {
  const OpDef* op = nullptr;
  Attrs attrs;
  SmallVector<ValueId, 4> in;
  SmallVector<ValueId, 2> out;
  SmallVector<NodeId, 2> after;  // control edges: nodes that must have run before
  Device device;
  bool pinned = false;  // the device was asked for, it does not follow from the operands
  Symbol scope;         // where in the model it was applied
  NodeId origin = -1;   // gradient and update nodes: the forward node they came from
  Lane lane = Lane::compute;
};

// State that outlives a run: read by `variable`, written by `assign`. `tensor` is the entry it was traced from, if any.
// `init` is the value it begins with where nobody has given it one: made from constants alone, -1 when there is none.
struct GraphVariable {
  std::string name;
  TensorType type;
  Tensor tensor;
  ValueId init = -1;
};

// A program in single-assignment form. Nodes stand in an order in which they may run. Sources (input, variable,
// constant) are nodes too; their `index` attribute says which.
class Graph {
 public:
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Value>& values() const { return values_; }
  Node& node(NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  Value& value(ValueId id) { return values_[static_cast<std::size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  const Node& maker(ValueId id) const { return node(value(id).node); }
  int size() const { return static_cast<int>(nodes_.size()); }

  // Appends a node; its outputs are inferred. The last form copies scope, device, origin and lane of another node.
  NodeId add(const OpDef& op, std::span<const ValueId> in, const Attrs& attrs = {});
  NodeId add(const OpDef& op, std::span<const ValueId> in, const Attrs& attrs, const Node& like);

  ValueId add_input(const TensorType& type);
  ValueId add_constant(const Tensor& tensor);
  int add_variable(GraphVariable variable);  // returns its index
  ValueId read(int variable);                // appends a `variable` node

  std::vector<ValueId> inputs;  // in order of the arguments
  std::vector<ValueId> outputs;
  std::vector<GraphVariable> variables;
  std::vector<Tensor> constants;
  // Groups of nodes that can be asked for by name, for their effect: "train".
  std::map<std::string, std::vector<NodeId>> targets;
  // The tracer whose tensors are handles of this graph's values; 0: there are none (parsed, rewritten).
  std::uint64_t tracer = 0;

  // The bodies of control flow, named by their index (see ops/control.h): immutable, and shared by the graphs that
  // passes make of this one.
  std::vector<std::shared_ptr<const Graph>> bodies;
  int add_body(std::shared_ptr<const Graph> body);  // returns its index; one that is there already keeps its own

  // Nodes that read each value, in order.
  std::vector<std::vector<NodeId>> users() const;

 private:
  std::vector<Node> nodes_;
  std::vector<Value> values_;
};

bool is_source(const Node& node);             // input, variable, constant
std::int64_t source_index(const Node& node);  // of a source or an assign
bool has_effect(const Node& node);            // on what is not in the graph (queues, files): they keep their order
bool is_op(const Node& node, std::string_view name);

std::ostream& operator<<(std::ostream& out, const Graph& graph);

}  // namespace starling
