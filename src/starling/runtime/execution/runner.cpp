#include "starling/runtime/execution/runner.h"

namespace starling::runtime {

std::unique_ptr<Runner> make_runner(BoundProgram& program) {
  if (program.options().part) return make_part_runner(program);
  if (program.executable().device().kind == DeviceKind::cuda) return make_device_runner(program);
  bool several = false;
  for (std::size_t lane = 1; lane < program.lanes().size(); ++lane) several |= !program.lanes()[lane].empty();
  return several ? make_lanes_runner(program) : make_serial_runner(program);
}

}  // namespace starling::runtime
