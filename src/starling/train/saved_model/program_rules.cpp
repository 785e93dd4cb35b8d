#include "starling/train/saved_model/program_rules.h"

#include "starling/base/error.h"

namespace starling::train {
namespace {

void check_nodes(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes()) {
    check(!has_effect(node) && !is_op(node, "assign"),
          "[model] expected a graph that computes its outputs and does nothing else, got {}", node.op->name);
    check(node.device == Device{} && node.lane == graph::Lane::compute,
          "[model] expected a graph for one CPU, got a node {} on {}", node.op->name, to_string(node.device));
  }
  for (const auto& body : graph.bodies) check_nodes(*body);
}

void count_bytes(const graph::Graph& graph, std::uint64_t most, std::uint64_t& sum) {
  for (const graph::Value& value : graph.values()) {
    const auto elements = static_cast<std::uint64_t>(value.type.shape.numel());
    const auto size = static_cast<std::uint64_t>(size_of(value.type.dtype));
    if (elements > most / size || sum > most - elements * size)
      fail("[model] expected values of at most {} bytes in all, got more", most);
    sum += elements * size;
  }
  for (const auto& body : graph.bodies) count_bytes(*body, most, sum);
}

}  // namespace

void check_model_graph(const graph::Graph& graph, std::uint64_t most_bytes) {
  check_nodes(graph);
  check(graph.targets.empty(), "[model] expected a graph without targets, got {}", graph.targets.size());
  for (const auto& variable : graph.variables)
    check(variable.init < 0, "[model] expected every weight in the file, got a first value of '{}'", variable.name);
  std::uint64_t sum = 0;
  count_bytes(graph, most_bytes, sum);
}

}  // namespace starling::train
