#include "starling/runtime/execution/runner.h"

#include "starling/graph/next_forward.h"

namespace starling::runtime {

std::unique_ptr<Runner> make_runner(BoundProgram& program) {
  const Executable& exe = program.executable();
  if (program.options().part) return make_part_runner(program);
  if (exe.device().kind == DeviceKind::cuda) return make_device_runner(program);
  bool several = false;
  for (std::size_t lane = 1; lane < program.lanes().size(); ++lane) several |= !program.lanes()[lane].empty();
  if (!several) return make_serial_runner(program);
  const bool deferred = exe.graph().targets.contains(std::string(graph::kDeferredUpdates));
  return deferred ? make_deferred_runner(program) : make_lanes_runner(program);
}

}  // namespace starling::runtime
