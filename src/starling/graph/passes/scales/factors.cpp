#include "starling/graph/passes/scales/factors.h"

#include "starling/ops/api/matmul.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/shape_ops.h"

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

Factor factor_of(const Graph& graph, ValueId id, bool transposed) {
  Factor factor{id, transposed};
  while (swaps_last_two(graph, graph.maker(factor.value)))
    factor = Factor{graph.maker(factor.value).in[0], !factor.transposed};
  return factor;
}

Factors factors_of(const Graph& graph, const Node& node) {
  if (!is_op(node, "matmul")) return {};
  const auto& attrs = node.attrs.as<op::MatmulAttrs>();
  return {factor_of(graph, node.in[0], attrs.trans_a), factor_of(graph, node.in[1], attrs.trans_b)};
}

}  // namespace starling::graph
