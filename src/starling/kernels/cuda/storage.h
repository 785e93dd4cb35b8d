#pragma once

#include <string>

#include "starling/kernels/storable.h"

namespace starling::cuda {

// Says how operands and results of an op may be stored for its kernels; called while the kernel table is built.
void add_storable(const std::string& op, kernels::Storable storable);

}  // namespace starling::cuda
