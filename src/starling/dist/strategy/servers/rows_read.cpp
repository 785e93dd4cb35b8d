#include "starling/dist/strategy/servers/rows_read.h"

#include <algorithm>
#include <optional>

#include "starling/ops/api/creation.h"
#include "starling/ops/def/attrs/embedding.h"
#include "starling/ops/def/registry.h"

namespace starling::dist {
namespace {

using graph::Graph;
using graph::is_op;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

// Nodes whose result has the values of their operand, in other places.
bool moves(const Node& node) {
  return is_op(node, "transpose") || is_op(node, "permute") || is_op(node, "reshape") || is_op(node, "identity");
}

std::optional<std::size_t> input_of(const Graph& graph, ValueId value) {
  while (moves(graph.maker(value))) value = graph.maker(value).in[0];
  const Node& source = graph.maker(value);
  if (!is_op(source, "input")) return std::nullopt;
  return static_cast<std::size_t>(graph::source_index(source));
}

bool reads_rows(const Node& node, ValueId table) {
  return is_op(node, "embedding") && node.in[1] == table && node.attrs.as<op::EmbeddingAttrs>().sparse;
}

// The input whose ids every reader of a table takes; nullopt: there is none, or not one alone.
std::optional<std::size_t> ids_of(const Graph& graph, ValueId table, const std::vector<NodeId>& readers) {
  std::optional<std::size_t> found;
  for (const NodeId id : readers) {
    const Node& node = graph.node(id);
    const auto input = reads_rows(node, table) ? input_of(graph, node.in[0]) : std::nullopt;
    if (!input || (found && found != input)) return std::nullopt;
    found = input;
  }
  return found;
}

}  // namespace

std::vector<RowsRead> rows_read(const Graph& graph) {
  const auto users = graph.users();
  std::vector<RowsRead> all;
  std::vector<std::size_t> seen(graph.variables.size(), 0);  // nodes that stand for a variable
  for (const Node& node : graph.nodes()) {
    if (is_op(node, "variable")) ++seen[static_cast<std::size_t>(graph::source_index(node))];
  }
  for (const Node& node : graph.nodes()) {
    if (!is_op(node, "variable")) continue;
    const auto index = static_cast<std::size_t>(graph::source_index(node));
    const ValueId table = node.out[0];
    const bool is_output = std::ranges::find(graph.outputs, table) != graph.outputs.end();
    if (seen[index] != 1 || is_output) continue;
    if (const auto input = ids_of(graph, table, users[static_cast<std::size_t>(table)]))
      all.push_back({graph.variables[index].tensor, *input});
  }
  return all;
}

Tensor rows_among(const Tensor& ids, std::int64_t rows) {
  std::vector<std::int64_t> found(ids.data<std::int64_t>(), ids.data<std::int64_t>() + ids.numel());
  std::erase_if(found, [&](std::int64_t id) { return id < 0 || id >= rows; });
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return from_host<std::int64_t>(found, {static_cast<std::int64_t>(found.size())});
}

}  // namespace starling::dist
