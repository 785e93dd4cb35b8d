#include "starling/runtime/placed/placed_part.h"

#include "starling/graph/placement/tasks.h"
#include "starling/tensor/bytes.h"

namespace starling::runtime {

void Mirror::refresh() {
  const auto now = original.impl()->storage->version();
  if (now == version) return;
  copy_into(copy, original);
  version = now;
}

void Mirror::give_back() {
  if (!written) return;
  copy_into(original, copy);
  version = original.impl()->storage->version();
}

void PlacedPart::run() {
  for (auto& mirror : mirrors) mirror.refresh();
  instance->run(inputs, outputs);
  for (auto& mirror : mirrors) mirror.give_back();
}

PlacedPart build_part(graph::GraphPart cut, const graph::PlacedDevice& device, int position, const Container& container,
                      const Transfers& transfers, const BuildOptions& options) {
  const Device where = device.device;
  PlacedPart part;
  part.input_indices = std::move(cut.inputs);
  Container own = container;
  for (const auto& variable : cut.graph.variables) {
    part.variable_bytes += static_cast<std::int64_t>(bytes_of(variable.type));
    const Tensor& original = container.get(variable.name);
    if (original.device().kind == where.kind || where.kind == DeviceKind::null) continue;
    Mirror mirror{original, to(original, where), false, original.impl()->storage->version()};
    mirror.copy.set_name(variable.name);
    own.set(variable.name, mirror.copy);
    part.mirrors.push_back(std::move(mirror));
  }
  graph::ProgramOptions program = options.program;
  program.threads = device.threads;
  auto executable = Executable::build(
      std::move(cut.graph), program,
      [&transfers, where](const kernels::PlanRequest& request) { return transfers.plan(request, where); });
  for (int assigned : executable->assigned()) {
    const auto& name = executable->graph().variables[static_cast<std::size_t>(assigned)].name;
    for (auto& mirror : part.mirrors) mirror.written |= mirror.copy.name() == name;
  }
  part.instance =
      std::make_unique<Instance>(std::move(executable), own, InstanceOptions{.rank = position, .part = true});
  return part;
}

}  // namespace starling::runtime
