#include "starling/graph/passes/attention/multiplicand.h"

#include "starling/ops/api/matmul.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/attrs/shape_ops.h"

namespace starling::graph {

bool swaps_last_two(const Graph& graph, const Node& node) {
  if ((!is_op(node, "transpose") && !is_op(node, "permute")) || !node.after.empty()) return false;
  const int rank = graph.value(node.in[0]).type.shape.rank();
  const Shape& order = node.attrs.as<op::TransposeAttrs>().order;
  if (rank < 2 || (order.empty() && rank != 2)) return order.empty() && rank == 2;
  for (int i = 0; i < rank && !order.empty(); ++i) {
    const int wanted = i == rank - 1 ? rank - 2 : i == rank - 2 ? rank - 1 : i;
    if (normalize_axis(order[i], rank, "transpose") != wanted) return false;
  }
  return true;
}

Multiplicand multiplicand_of(const Graph& graph, ValueId id, bool transposed) {
  Multiplicand found{id, transposed};
  while (swaps_last_two(graph, graph.maker(found.value)))
    found = Multiplicand{graph.maker(found.value).in[0], !found.transposed};
  return found;
}

Multiplicands multiplicands_of(const Graph& graph, const Node& node) {
  if (!is_op(node, "matmul")) return {};
  const auto& attrs = node.attrs.as<op::MatmulAttrs>();
  return {multiplicand_of(graph, node.in[0], attrs.trans_a), multiplicand_of(graph, node.in[1], attrs.trans_b)};
}

}  // namespace starling::graph
