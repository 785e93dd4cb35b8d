#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "starling/base/function_ref.h"

namespace starling::runtime {

// Times what is enqueued on a device, by events around it. The device is kept busy for a moment before each begins, so
// that what the host takes to enqueue is not counted.
class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;
  virtual void time(FunctionRef<void(void* stream)> enqueue) = 0;  // asynchronous
  // Waits for all that was enqueued; nanoseconds of each in their order. It begins anew then.
  virtual std::vector<std::int64_t> times() = 0;
};

// CUDA implementation; null in builds without CUDA.
std::unique_ptr<DeviceTimer> make_cuda_timer(int device);

}  // namespace starling::runtime
