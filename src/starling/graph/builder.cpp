#include "starling/graph/builder.h"

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/graph/control/control_types.h"
#include "starling/graph/extract.h"
#include "starling/graph/verifier.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/api/state.h"

namespace starling {

GraphBuilder::GraphBuilder() : tracer_(std::make_unique<graph::Tracer>(graph::Tracer::Declarative{})) {
  tracer_->graph().tracer = tracer_->id();
  scope_.emplace(*tracer_);
  sites_.emplace();
}

GraphBuilder::~GraphBuilder() { leave(); }

void GraphBuilder::leave() {
  if (!scope_) return;
  tracer_->restore_slots();  // slots of parameters whose gradients were not consumed
  sites_.reset();
  scope_.reset();
}

graph::Tracer& GraphBuilder::open() {
  check(scope_.has_value(), "[graph] expected a builder that is building, got one that has finished");
  check(&current_interpreter() == tracer_.get(),
        "[graph] expected the innermost builder of this thread, got an outer one (or one of another thread)");
  return *tracer_;
}

void GraphBuilder::claim(const std::string& name) {
  check(!name.empty(), "[graph] expected a name, got an empty one");
  check(names_.insert(name).second, "[graph] expected a name that is not taken, got '{}' again", name);
}

Tensor GraphBuilder::placeholder(const std::string& name, DType dtype, const Shape& shape, Device device) {
  graph::Tracer& tracer = open();
  check_size(shape, size_of(dtype), "placeholder");
  claim(name);
  Tensor x = tracer.input({dtype, shape}, device);
  tracer.graph().value(x.impl()->value).name = Symbol(name);
  x.set_name(name);
  if (is_float(dtype)) x.set_requires_grad();
  return x;
}

Tensor GraphBuilder::declare(const std::string& name, const TensorType& type, graph::ValueId init, Device device) {
  graph::Tracer& tracer = open();
  claim(name);
  Tensor w = tracer.declare({name, type, {}, init}, device);
  tracer.graph().value(w.impl()->value).name = Symbol(name);
  w.set_name(name);
  if (is_float(type.dtype)) w.set_requires_grad();
  return w;
}

// The initial value must not depend on other state: reads of variables become constants.
graph::ValueId GraphBuilder::own_initial_value(graph::ValueId value) {
  graph::Graph& graph = tracer_->graph();
  if (stands_alone(graph, value)) return value;
  const graph::Graph part = initial_value(graph, value);
  std::vector<graph::ValueId> made(part.values().size(), -1);
  for (const graph::Node& node : part.nodes()) {
    SmallVector<graph::ValueId, 4> in;
    for (graph::ValueId id : node.in) in.push_back(made[static_cast<std::size_t>(id)]);
    graph::NodeId copy = -1;
    if (is_op(node, "constant")) {
      copy = graph.value(graph.add_constant(part.constants[static_cast<std::size_t>(source_index(node))])).node;
      graph.node(copy).device = node.device;
    } else {
      copy = graph.add(*node.op, {in.data(), in.size()}, node.attrs, node);
    }
    for (std::size_t i = 0; i < node.out.size(); ++i)
      made[static_cast<std::size_t>(node.out[i])] = graph.node(copy).out[i];
  }
  return made[static_cast<std::size_t>(part.outputs[0])];
}

Tensor GraphBuilder::variable(const std::string& name, const Tensor& init) {
  graph::Tracer& tracer = open();
  check(init.defined(), "[graph] expected a first value of variable '{}', got an empty handle", name);
  const graph::ValueId value = init.traced() ? tracer.value_of(init) : constant(init).impl()->value;
  return declare(name, init.type(), own_initial_value(value), init.device());
}

Tensor GraphBuilder::variable(const std::string& name, DType dtype, const Shape& shape, Device device) {
  check_size(shape, size_of(dtype), "variable");
  return declare(name, {dtype, shape}, -1, device);
}

Tensor GraphBuilder::constant(const Tensor& value) {
  graph::Tracer& tracer = open();
  check(value.defined(), "[graph] expected a constant with data, got an empty handle");
  return value.traced() ? tracer.handle(tracer.value_of(value)) : tracer.constant(value);
}

Tensor GraphBuilder::name(const std::string& name, const Tensor& edge) {
  graph::Tracer& tracer = open();
  graph::Value& value = tracer.graph().value(tracer.value_of(edge));
  check(value.name.empty(), "[graph] expected an edge without a name to be called '{}', got '{}'", name,
        value.name.str());
  claim(name);
  value.name = Symbol(name);
  return edge;
}

Tensor GraphBuilder::find(const std::string& name) const {
  return tracer_->handle(Edges(tracer_->graph(), "graph").find(Edge(name)));
}

TensorList GraphBuilder::gradients(const Tensor& loss, std::span<const Tensor> edges) {
  open();
  for (const auto& edge : edges) {
    check(edge.defined() && edge.requires_grad(),
          "[gradients] expected edges computed from float placeholders and variables, got {}",
          edge.defined() ? to_string(edge.type()) + " that is not" : "an empty handle");
  }
  check(loss.defined() && loss.requires_grad(),
        "[gradients] expected a loss computed from float placeholders and variables, got one that is not");
  TensorList all = starling::gradients({&loss, 1}, edges, {}, {.create_graph = true});
  for (auto& gradient : all) gradient = dense(gradient);
  return all;
}

Tensor GraphBuilder::read(const Tensor& variable) {
  graph::Tracer& tracer = open();
  const int index = tracer.declared(variable);
  if (index < 0 && !variable.traced() && variable.is_variable()) return tracer.handle(tracer.value_of(variable));
  check(index >= 0, "[graph] expected a variable to read, got {}", to_string(variable.type()));
  Tensor now = tracer.read(index, variable.device());
  if (is_float(now.dtype())) now.set_requires_grad();
  return now;
}

Target GraphBuilder::made_target(const std::string& name, std::vector<graph::NodeId> nodes) {
  if (!name.empty()) {
    claim(name);
    tracer_->graph().targets.emplace(name, nodes);
  }
  return {tracer_->id(), std::move(nodes)};
}

Target GraphBuilder::assign(const Tensor& variable, const Tensor& value, const std::string& name) {
  graph::Tracer& tracer = open();
  const NoGrad no_grad;
  starling::assign(variable, value);
  return made_target(name, {tracer.graph().size() - 1});
}

Target GraphBuilder::updates(const std::string& name, const std::function<void()>& f) {
  const graph::Graph& graph = open().graph();
  const graph::NodeId first = graph.size();
  f();
  std::vector<graph::NodeId> nodes;
  for (graph::NodeId id = first; id < graph.size(); ++id) {
    if (has_effects(graph, graph.node(id))) nodes.push_back(id);
  }
  check(!nodes.empty(), "[graph] expected target '{}' to have effects, got none", name);
  return made_target(name, std::move(nodes));
}

Target GraphBuilder::group(const std::string& name, std::initializer_list<Target> targets) {
  const Edges edges(open().graph(), "graph");
  std::vector<graph::NodeId> all;
  for (const auto& target : targets) {
    for (graph::NodeId id : edges.find(target)) all.push_back(id);
  }
  return made_target(name, std::move(all));
}

void GraphBuilder::after(std::initializer_list<Target> targets, const std::function<void()>& f) {
  graph::Graph& graph = open().graph();
  const Edges edges(graph, "graph");
  std::set<graph::NodeId> before;
  for (const auto& target : targets) {
    for (graph::NodeId id : edges.find(target)) before.insert(id);
  }
  const graph::NodeId first = graph.size();
  f();
  for (graph::NodeId id = first; id < graph.size(); ++id) {
    for (graph::NodeId other : before) graph.node(id).after.push_back(other);
  }
  open().forget_since(first);
}

graph::Graph GraphBuilder::finish() {
  graph::Tracer& tracer = open();
  graph::Graph& graph = tracer.graph();
  // Tensors that became variables can be referred to by their names too, unless those are taken.
  for (const graph::Node& node : graph.nodes()) {
    if (!is_op(node, "variable") || !graph.value(node.out[0]).name.empty()) continue;
    const std::string& name = graph.variables[static_cast<std::size_t>(source_index(node))].name;
    if (names_.insert(name).second) graph.value(node.out[0]).name = Symbol(name);
  }
  verify(graph, "building");
  leave();
  return std::move(graph);
}

}  // namespace starling
