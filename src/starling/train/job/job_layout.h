#pragma once

#include <optional>
#include <string>

#include "starling/dist/strategy/planned_step.h"
#include "starling/train/job/prepared_job.h"

namespace starling::train {

// Where the state of a job lies on its mesh; nullopt: its strategy knows no meshes.
std::optional<dist::StatePlan> state_plan(const Job& job);

// Bytes of the state of a job on the ranks of this process, and what less of it `zero` would leave: for a run that
// met train.memory_mb. Allocates next to nothing.
std::string told_state(const PreparedJob& prepared, std::int64_t ranks_here);

// Throws Error, with what was expected, if the job's layout does not fit its network.
void check_layout(const PreparedJob& prepared);

}  // namespace starling::train
