#include "starling/dist/strategy/programs/sharded_program.h"

#include <algorithm>

#include "starling/dist/mesh/mesh_choice.h"
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/tensor/bytes.h"

namespace starling::dist {

graph::Graph with_pieces(graph::Graph global, CutsOfVariable cuts, std::string_view axis) {
  for (graph::NodeId id = 0; id < global.size(); ++id) {
    const graph::Node& node = global.node(id);
    if (!graph::is_op(node, "variable")) continue;
    const Tensor& tensor = global.variables[static_cast<std::size_t>(graph::source_index(node))].tensor;
    if (!tensor.defined()) continue;
    for (const AxisCut& cut : cuts(tensor)) {
      if (cut.axis == axis) global.value(node.out[0]).layouts = {cut.layout};
    }
  }
  return global;
}

graph::Graph along_model_axes(const graph::Graph& global, const StatePlan& plan, CutsOfVariable cuts, int rank,
                              const SeenCut& seen) {
  graph::Graph local = global;
  const MeshShape& mesh = plan.mesh();
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.name == kDataAxis || axis.size == 1) continue;
    const graph::Partitioner::Mesh along{.parts = axis.size,
                                         .first = mesh.coordinate(rank, axis.name),
                                         .group = Symbol(axis.name),
                                         .whole_results = true,
                                         .height = plan.splits_pictures(axis.name)};
    const graph::Graph marked = with_pieces(std::move(local), cuts, axis.name);
    graph::Partitioner cut(marked, along, {});
    local = cut.run();
    if (seen) seen(axis.name, cut);
  }
  return local;
}

Container with_pieces(const Container& container, const ShardedState& sharded) {
  Container local;
  for (const auto& [name, tensor] : container.entries()) local.set(name, sharded.local(tensor));
  return local;
}

std::vector<NamedTensor> with_memory(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> here;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(here),
               [](const NamedTensor& one) { return static_cast<bool>(one.tensor.impl()->storage); });
  return here;
}

std::size_t stored_bytes(const std::vector<NamedTensor>& tensors, const ShardedState& sharded) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += bytes_of(sharded.local(tensor));
  return bytes;
}

}  // namespace starling::dist
