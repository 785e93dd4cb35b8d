#include "starling/graph/edge.h"

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"

namespace starling {

Edges::Edges(const graph::Graph& graph, std::string who) : graph_(graph), who_(std::move(who)) {
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Symbol name = graph.values()[i].name;
    if (!name.empty()) by_name_.emplace(name.str(), static_cast<graph::ValueId>(i));
  }
}

void Edges::unknown(const std::string& name, const char* what) const {
  std::vector<std::string> known;
  for (const auto& [other, id] : by_name_) known.push_back(other);
  for (const auto& [other, nodes] : graph_.targets) known.push_back(other);
  const auto close = nearest(name, known);
  fail("[{}] expected the name of {} of the graph, got '{}'{}", who_, what, name,
       close.empty() ? "" : " (did you mean '" + close + "'?)");
}

// A tensor that existed before the graph is resolved to the first read of its variable.
graph::ValueId Edges::of_handle(const Tensor& handle) const {
  if (handle.traced()) {
    check(graph_.tracer != 0 && handle.impl()->tracer == graph_.tracer,
          "[{}] expected an edge of this graph, got one of another ({})", who_, to_string(handle.type()));
    return handle.impl()->value;
  }
  for (graph::ValueId id = 0; id < static_cast<graph::ValueId>(graph_.values().size()); ++id) {
    const graph::Node& maker = graph_.maker(id);
    if (!is_op(maker, "variable")) continue;
    const auto& variable = graph_.variables[static_cast<std::size_t>(source_index(maker))];
    if (variable.tensor.defined() && same(variable.tensor, handle)) return id;
  }
  fail("[{}] expected an edge of the graph, got a tensor {}{} that is none", who_, to_string(handle.type()),
       handle.is_variable() ? " '" + handle.name() + "'" : "");
}

graph::ValueId Edges::find(const Edge& edge) const {
  if (edge.handle().defined()) return of_handle(edge.handle());
  const auto it = by_name_.find(edge.name());
  if (it == by_name_.end()) unknown(edge.name(), "an edge");
  return it->second;
}

std::vector<graph::NodeId> Edges::find(const Target& target) const {
  if (target.is_nodes()) {
    check(target.tracer() == graph_.tracer, "[{}] expected a target of this graph, got one of another", who_);
    return target.nodes();
  }
  if (target.edge().handle().defined()) return {graph_.value(of_handle(target.edge().handle())).node};
  const std::string& name = target.edge().name();
  if (const auto it = graph_.targets.find(name); it != graph_.targets.end()) return it->second;
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) unknown(name, "a target or an edge");
  return {graph_.value(it->second).node};
}

std::string Edges::describe(graph::ValueId id) const {
  const graph::Value& value = graph_.value(id);
  if (!value.name.empty()) return "'" + value.name.str() + "'";
  return fmt::format("%{} of {}", id, graph_.maker(id).op->name);
}

}  // namespace starling
