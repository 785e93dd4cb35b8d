#pragma once

#include <optional>

#include "starling/dist/strategy/planned_step.h"
#include "starling/train/job/prepared_job.h"

namespace starling::train {

// Where the state of a job lies on its mesh; nullopt: its strategy knows no meshes.
std::optional<dist::StatePlan> state_plan(const Job& job);

// Throws Error, with what was expected, if the job's layout does not fit its network.
void check_layout(const PreparedJob& prepared);

}  // namespace starling::train
