#pragma once

#include <string>

#include "starling/kernels/kernel_table.h"

namespace starling::kernels::reference {

// Kernels of a normalisation op and of its backward, in the common form of ops/def/norm_view.h.
void add_norm(KernelTable& table, const std::string& op);

}  // namespace starling::kernels::reference
