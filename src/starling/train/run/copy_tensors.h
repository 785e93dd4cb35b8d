#pragma once

#include <vector>

#include "starling/train/checkpoint/checkpoint.h"

namespace starling::train {

// Copies tensors of a checkpoint into those of the same names. Throws "[who] expected …", before anything is written,
// naming the first tensor that is missing or has another type.
void copy_tensors(const Checkpoint& from, const std::vector<NamedTensor>& to, const char* who);

}  // namespace starling::train
