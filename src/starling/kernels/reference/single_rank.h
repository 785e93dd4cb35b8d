#pragma once

#include "starling/base/error.h"
#include "starling/kernels/kernel.h"

namespace starling::kernels::reference {

// Throws if there is a communicator: its kernels come before the reference ones, which are for a single rank.
inline void expect_alone(const Launch& launch, const char* op) {
  check(launch.context.comm == nullptr, "[{}] expected the kernel of the communicator, got the one for a single rank",
        op);
}

}  // namespace starling::kernels::reference
