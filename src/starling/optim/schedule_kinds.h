#pragma once

#include <memory>

#include "starling/base/config/kinds.h"
#include "starling/optim/schedule.h"

namespace starling::optim {

using ScheduleKinds = Kinds<std::unique_ptr<Schedule>>;

// Schedules by the names that jobs use; built from the files in optim/schedules.
const ScheduleKinds& schedule_kinds();

}  // namespace starling::optim
