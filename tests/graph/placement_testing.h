#pragma once

#include <functional>
#include <string>

#include "graph/passes_testing.h"
#include "starling/base/error.h"
#include "starling/graph/placement/cut.h"

namespace starling::graph {

inline Device logical_cpu(int index) { return {DeviceKind::cpu, static_cast<std::uint8_t>(index)}; }

inline PlacementOptions cpus(int count) {
  PlacementOptions options;
  for (int i = 0; i < count; ++i) options.devices.push_back({.device = logical_cpu(i), .threads = 1});
  return options;
}

inline DevicePlacement placed_on(const Graph& graph, const PlacementOptions& options,
                                 const PlacementFacts& facts = {}) {
  return place(graph, find_classes(graph, options), options, facts);
}

// Device of the node that produces a value.
inline int device_of(const Graph& graph, const DevicePlacement& placement, ValueId value) {
  return placement.of_node[static_cast<std::size_t>(graph.value(value).node)];
}

inline std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

}  // namespace starling::graph
