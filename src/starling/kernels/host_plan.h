#pragma once

#include "starling/kernels/kernel.h"

namespace starling::kernels {

// Plan of a device's program that the host runs itself: it waits for others, or reads operands. The program is cut into
// recorded pieces around it, which have been launched, in its order, when it is called.
class HostPlan : public Plan {};

}  // namespace starling::kernels
