#pragma once

#include <cstdint>

#include "starling/graph/graph.h"
#include "starling/train/job/prepared_job.h"

namespace starling::train {

struct JobGraphOptions {
  bool train = true;       // loss, gradients and update; false: the prediction alone, in eval mode
  bool update = true;      // false: the loss alone, for which no state of an optimizer is made
  std::int64_t batch = 0;  // samples; 0: the job's
};

// Traces a step of a job on shapes alone, before any pass: nothing is computed, and the weights stay as they are.
graph::Graph trace_job(const PreparedJob& prepared, const JobGraphOptions& options = {});

}  // namespace starling::train
