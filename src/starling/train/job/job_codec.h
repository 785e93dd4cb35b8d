#pragma once

#include <string>
#include <vector>

#include "starling/train/job/prepared_job.h"

namespace starling::train {

// Refuses patterns of names (codec.layers, a topology's codec, nexus' layers) that no weight has, and weights named for
// codec: factors whose gradient is no product of errors and inputs.
void check_patterns(const PreparedJob& prepared);

// Notes for users of a codec: of factors and auto how many gradients can travel as their factors, and which
// travel whole; and which weights have row-sparse gradients, which no codec codes.
std::vector<std::string> codec_notes(const PreparedJob& prepared);

}  // namespace starling::train
