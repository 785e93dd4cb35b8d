#include <algorithm>

#include "starling/graph/cost/cost.h"
#include "starling/graph/placement/tasks.h"
#include "starling/ops/def/attrs/transfer.h"

namespace starling::graph {
namespace {

struct Speed {
  double flops;
  double bytes;
};

Speed speed_of(const PlacedDevice& device) {
  const bool gpu = device.device.kind == DeviceKind::cuda;
  const double threads = std::max(1, device.threads);
  const Speed usual = gpu ? Speed{2e13, 1.5e12} : Speed{4e10 * threads, 8e9 * std::min(threads, 4.0)};
  return {device.flops_per_second > 0 ? device.flops_per_second : usual.flops,
          device.bytes_per_second > 0 ? device.bytes_per_second : usual.bytes};
}

}  // namespace

double estimated_seconds(const Graph& graph, NodeId id, const PlacedDevice& device, const PlacementOptions& options) {
  const Node& node = graph.node(id);
  if (is_source(node)) return 0;
  if (options.measured) {
    const double seconds = options.measured(graph, id, device);
    if (seconds >= 0) return seconds;
  }
  if (is_op(node, "delay")) return node.attrs.as<op::DelayAttrs>().milliseconds / 1e3;
  const Cost cost = cost_of(graph, id);
  if (cost.flops == 0 && cost.bytes() == 0) return 0;  // views and assigns
  const Speed speed = speed_of(device);
  return options.seconds_per_op + std::max(cost.flops / speed.flops, cost.bytes() / speed.bytes);
}

}  // namespace starling::graph
