#pragma once

#include <mutex>

#include "starling/tensor/device.h"

namespace starling::runtime {

// Turn of a thread to plan or to record programs of GPUs: one thread of the process at a time, since the handles of
// libraries, the streams they are set to, and timings are the process's. Held by no thread that waits for another.
// Other devices need none.
std::unique_lock<std::recursive_mutex> take_device_turn(Device device);

}  // namespace starling::runtime
