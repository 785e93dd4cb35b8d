#pragma once

#include <optional>
#include <string>
#include <vector>

#include "starling/train/job/prepared_job.h"

namespace starling::train {

// Findings of trying a job out without training.
struct JobCheck {
  std::vector<std::string> problems{};  // one message for each thing wrong with the job, with its place in the job file
  std::optional<PreparedJob> prepared{};
  StepShapes shapes{};
  std::vector<std::string> notes{};  // true of the job, not wrong, and worth knowing

  bool ok() const { return problems.empty(); }
};

// Reads the data, makes the network, the optimizer and the schedule, looks for the metrics that are named, puts the
// shapes of a batch through a step and looks whether the folder can be written. Goes on after a problem as far as
// possible, as if the wrong value had not been given, so that all are told at once.
JobCheck check_job(const Job& job);

}  // namespace starling::train
