#pragma once

#include <string>
#include <vector>

#include "starling/train/job/prepared_job.h"

namespace starling::train {

// Remarks on a job whose strategy is a procedure over all samples (sandblaster): what of the job it
// does not use, and what makes its loss another function at every evaluation. Empty with other strategies.
std::vector<std::string> procedure_notes(const PreparedJob& prepared);

}  // namespace starling::train
