#pragma once

#include <algorithm>
#include <string>

#include "starling/graph/tracer.h"
#include "starling/ops/api/device_scope.h"
#include "starling/ops/def/attrs/transfer.h"
#include "starling/ops/def/scopes/scope.h"
#include "starling/runtime/placed/placed.h"
#include "starling/starling.h"

namespace starling::testing {

inline Device cpu(int index) { return {DeviceKind::cpu, static_cast<std::uint8_t>(index)}; }

// `count` logical CPUs of one thread each.
inline graph::PlacementOptions logical_cpus(int count) {
  graph::PlacementOptions options;
  for (int i = 0; i < count; ++i) options.devices.push_back({.device = cpu(i), .threads = 1});
  return options;
}

// A function placed over devices, with its parts accessible.
struct PlacedFunction {
  graph::Trace traced;
  std::unique_ptr<PlacedProgram> program;
  std::vector<Tensor> outputs;

  PlacedFunction(const graph::TraceFn& f, std::span<const Tensor> inputs, const graph::PlacementOptions& options,
                 runtime::BuildOptions build = {.program = {.threads = 1}})
      : traced(graph::trace(f, inputs)) {
    build.arguments = inputs.size();
    program = build_placed(traced.graph, Container::of(traced.graph), build, options);
    for (graph::ValueId out : traced.graph.outputs) {
      const TensorType& type = traced.graph.value(out).type;
      outputs.push_back(empty(type.shape, type.dtype));
    }
  }

  const std::vector<Tensor>& operator()(std::span<const Tensor> inputs) {
    program->run(inputs, outputs);
    return outputs;
  }

  int count(const std::string& op) const {
    int found = 0;
    for (int d = 0; d < program->parts(); ++d) found += count_on(d, op);
    return found;
  }
  int count_on(int device, const std::string& op) const {
    const auto& nodes = program->part(device).nodes();
    return static_cast<int>(
        std::count_if(nodes.begin(), nodes.end(), [&](const graph::Node& n) { return is_op(n, op); }));
  }
};

}  // namespace starling::testing
