#include "starling/optim/schedule_kinds.h"

namespace starling {
void register_schedules(optim::ScheduleKinds& into);  // generated
}

namespace starling::optim {

const ScheduleKinds& schedule_kinds() {
  static const ScheduleKinds kinds = [] {
    ScheduleKinds made;
    register_schedules(made);
    return made;
  }();
  return kinds;
}

}  // namespace starling::optim
