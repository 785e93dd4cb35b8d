#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "starling/ops/def/op_def.h"
#include "starling/ops/def/sharding/sharding.h"

namespace starling::graph {

using ValueId = int;
using NodeId = int;

// Queue of instructions that a node goes to. Lanes run in parallel, each in order. Independent branches may go to
// further compute lanes, and every group of ranks that a program communicates in has a comm lane; both are numbered
// from 0, where the first of each kind is the one with a name.
enum class Lane : std::uint8_t { compute, comm };
constexpr int kMostBranches = 16;
constexpr int kMostCommLanes = 16;
constexpr Lane compute_lane(int number) { return static_cast<Lane>(2 * number); }
constexpr Lane comm_lane(int number) { return static_cast<Lane>(2 * number + 1); }
constexpr bool is_comm(Lane lane) { return static_cast<int>(lane) % 2 == 1; }
std::string name(Lane lane);

// Result of a node. `layouts` says how it lies over the mesh, one entry per mesh axis; empty: replicated. `name` is
// what users feed and fetch it by; empty: none.
struct Value {
  TensorType type;
  NodeId node = -1;
  int output = 0;
  Layouts layouts;
  Symbol name{};
};

// Application of an op: pure data, never a closure.
struct Node {
  const OpDef* op = nullptr;
  Attrs attrs;
  SmallVector<ValueId, 4> in;
  SmallVector<ValueId, 2> out;
  SmallVector<NodeId, 2> after;  // control edges: nodes that must run before
  Device device;
  bool pinned = false;  // the device was requested explicitly, not inherited from operands
  Symbol scope;         // scope path in the model
  NodeId origin = -1;   // gradient and update nodes: their forward node
  Lane lane = Lane::compute;
};

// State that outlives a run: read by `variable` nodes, written by `assign`. `tensor` is the tensor it was traced from,
// if any. `init` is its initial value, made from constants alone; -1 when there is none.
struct GraphVariable {
  std::string name;
  TensorType type;
  Tensor tensor;
  ValueId init = -1;
};

// Program in SSA form. Nodes are in topological order. Sources (input, variable, constant) are nodes too; their `index`
// attribute says which.
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

  // Appends a node and infers its outputs. The second form copies scope, device, origin and lane of another node.
  NodeId add(const OpDef& op, std::span<const ValueId> in, const Attrs& attrs = {});
  NodeId add(const OpDef& op, std::span<const ValueId> in, const Attrs& attrs, const Node& like);

  ValueId add_input(const TensorType& type);
  ValueId add_constant(const Tensor& tensor);
  int add_variable(GraphVariable variable);  // returns its index
  ValueId read(int variable);                // appends a `variable` node

  std::vector<ValueId> inputs;  // in argument order
  std::vector<ValueId> outputs;
  std::vector<GraphVariable> variables;
  std::vector<Tensor> constants;
  // Named groups of nodes that can be run for their effect: "train".
  std::map<std::string, std::vector<NodeId>> targets;
  // Id of the tracer whose tensors are handles of this graph's values; 0: none (parsed, rewritten).
  std::uint64_t tracer = 0;

  // Control-flow bodies, referred to by index (see ops/def/attrs/control.h): immutable, and shared with the graphs that
  // passes derive from this one.
  std::vector<std::shared_ptr<const Graph>> bodies;
  int add_body(std::shared_ptr<const Graph> body);  // returns its index; an existing body keeps its own

  // Readers of each value, in order.
  std::vector<std::vector<NodeId>> users() const;

 private:
  std::vector<Node> nodes_;
  std::vector<Value> values_;
};

bool is_source(const Node& node);             // input, variable, constant
std::int64_t source_index(const Node& node);  // for a source or an assign
bool has_effect(const Node& node);            // on queues, files and the like: such nodes keep their order
Symbol comm_group(const Node& node);          // group of ranks that it communicates in; empty: all, or none
bool is_op(const Node& node, std::string_view name);

std::ostream& operator<<(std::ostream& out, const Graph& graph);

}  // namespace starling::graph
