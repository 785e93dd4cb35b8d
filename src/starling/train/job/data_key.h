#pragma once

#include <string>

#include "starling/train/job/job.h"

namespace starling::train {

// Key of the job's data section that an error of its source speaks of, as "data.train.0": the one whose value the
// message quotes, else the one whose value it names (files), else the one that it names itself. "data" if it speaks of
// none that the job gives.
std::string data_key(const Job& job, const std::string& message);

}  // namespace starling::train
