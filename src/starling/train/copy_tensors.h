#pragma once

#include <vector>

#include "starling/train/checkpoint/checkpoint.h"

namespace starling {

// Copies the tensors of a checkpoint into those of the same names. Throws "[who] expected …" naming the first that it
// lacks or has of another type, before anything is written.
void copy_tensors(const Checkpoint& from, const std::vector<NamedTensor>& to, const char* who);

}  // namespace starling
