#include "starling/graph/cost/cost.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/graph/control/control_types.h"
#include "starling/graph/splice.h"
#include "starling/ops/def/attrs/control.h"
#include "starling/ops/def/costs.h"

namespace starling::graph {
namespace {

// Bytes of one read or write of a value.
double traffic(const TensorType& type) { return costs::elements(type) * static_cast<double>(size_of(type.dtype)); }

// True if the op only renames existing memory.
bool moves_nothing(const CostCall& call) {
  if (call.op.cost.free) return true;
  if (!call.op.view) return false;
  const Shape strides = contiguous_strides(call.in[0].shape);
  return call.op.view({call.in[0].shape, strides, call.attrs}).has_value();
}

double decomposed_flops(const CostCall& call) {
  try {
    double sum = 0;
    const Graph parts = decomposition(call.op, call.in, call.attrs);
    for (const auto& node : parts.nodes()) {
      if (node.op == &call.op) return costs::largest(call);  // no simpler form
    }
    for (NodeId id = 0; id < parts.size(); ++id) sum += cost_of(parts, id).flops;
    return sum;
  } catch (const Error&) {
    return costs::largest(call);  // decompositions may refuse arguments that the fused op takes
  }
}

double flops_of(const CostCall& call) {
  if (call.op.cost.flops) return call.op.cost.flops(call);
  if (call.op.elementwise()) return call.out.empty() ? 0 : costs::elements(call.out[0]);
  if (call.op.view) return 0;
  if (call.op.decompose) return decomposed_flops(call);
  return costs::largest(call);
}

Cost times(Cost cost, double count) {
  return {cost.flops * count, cost.bytes_read * count, cost.bytes_written * count};
}

// Number of trips of a loop, as far as the graph knows.
double trips_of(const Node& node) {
  if (is_op(node, "scan")) return static_cast<double>(node.attrs.as<op::ScanLoopAttrs>().length);
  const bool bounded = is_op(node, "while") && node.attrs.as<op::WhileAttrs>().max_trips > 0;
  return bounded ? static_cast<double>(node.attrs.as<op::WhileAttrs>().max_trips) : 1;
}

// Cost of bodies: the more expensive branch of a cond, all trips of a scan, the bound of a while, and one trip of a
// loop whose number of trips depends on data.
Cost cost_of_control(const Graph& graph, const Node& node) {
  Cost all, dearest;
  for (const auto& body : bodies_of(graph, node)) {
    const Cost one = cost_of(*body);
    all += one;
    if (one.flops + one.bytes() > dearest.flops + dearest.bytes()) dearest = one;
  }
  return is_op(node, "cond") ? dearest : times(all, trips_of(node));
}

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  flops += other.flops;
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  return *this;
}

Cost cost_of(const CostCall& call) {
  if (moves_nothing(call)) return {};
  Cost cost{.flops = flops_of(call)};
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    const double whole = traffic(call.in[i]);
    const bool some = static_cast<int>(i) == call.op.cost.gathers && !call.out.empty();
    cost.bytes_read += some ? std::min(whole, traffic(call.out[0])) : whole;
  }
  for (const auto& type : call.out) cost.bytes_written += traffic(type);
  return cost;
}

Cost cost_of(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (is_control(*node.op)) return cost_of_control(graph, node);
  Types in, out;
  for (ValueId value : node.in) in.push_back(graph.value(value).type);
  for (ValueId value : node.out) out.push_back(graph.value(value).type);
  return cost_of({*node.op, {in.data(), in.size()}, {out.data(), out.size()}, node.attrs});
}

Cost cost_of(const Graph& graph) {
  Cost sum;
  for (NodeId id = 0; id < graph.size(); ++id) sum += cost_of(graph, id);
  return sum;
}

}  // namespace starling::graph
