#pragma once

#include "starling/train/job/prepared_job.h"
#include "starling/train/loop/trainer.h"

namespace starling::train {

// Options of a trainer that follow from how a job makes a step: seed, batch, clipping, precision, loading. Epochs,
// folder, schedule, evaluation and ranks are left to the caller.
TrainerOptions step_options(const PreparedJob& prepared);

}  // namespace starling::train
