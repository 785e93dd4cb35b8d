#include <algorithm>
#include <cmath>

#include "starling/graph/placement/tasks.h"
#include "starling/ops/transfer.h"

namespace starling {
namespace {

double elements(const Graph& graph, ValueId id) { return static_cast<double>(graph.value(id).type.shape.numel()); }

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// Multiply-adds count 2. Products: √(mk · kn · mn) = mkn. Convolutions: the larger operands against the weights.
double flops(const Graph& graph, const Node& node) {
  double in = 0, out = 0;
  for (ValueId id : node.in) in = std::max(in, elements(graph, id));
  for (ValueId id : node.out) out = std::max(out, elements(graph, id));
  const std::string& name = node.op->name;
  const bool product = contains(name, "matmul") || contains(name, "linear") || contains(name, "conv") ||
                       contains(name, "attention") || contains(name, "lstm") || contains(name, "gru");
  if (!product || node.in.size() < 2) return std::max(in, out);
  std::vector<double> sizes;
  for (ValueId id : node.in) sizes.push_back(elements(graph, id));
  for (ValueId id : node.out) sizes.push_back(elements(graph, id));
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.resize(std::max<std::size_t>(sizes.size(), 3), 1.0);
  return 2 * std::sqrt(sizes[0] * sizes[1] * sizes[2]);
}

double bytes_moved(const Graph& graph, const Node& node) {
  double bytes = 0;
  for (ValueId id : node.in) bytes += static_cast<double>(bytes_of(graph.value(id).type));
  for (ValueId id : node.out) bytes += static_cast<double>(bytes_of(graph.value(id).type));
  return bytes;
}

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

std::int64_t bytes_of(const TensorType& type) {
  return type.shape.numel() * static_cast<std::int64_t>(size_of(type.dtype));
}

double estimated_seconds(const Graph& graph, NodeId id, const PlacedDevice& device, const PlacementOptions& options) {
  const Node& node = graph.node(id);
  if (is_source(node)) return 0;
  if (options.measured) {
    const double seconds = options.measured(graph, id, device);
    if (seconds >= 0) return seconds;
  }
  if (is_op(node, "delay")) return node.attrs.as<DelayAttrs>().milliseconds / 1e3;
  if (is_op(node, "assign") || node.op->view) return 0;
  const Speed speed = speed_of(device);
  return options.seconds_per_op + std::max(flops(graph, node) / speed.flops, bytes_moved(graph, node) / speed.bytes);
}

}  // namespace starling
