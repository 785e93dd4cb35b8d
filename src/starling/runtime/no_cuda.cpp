#include "starling/runtime/execution/device_timer.h"
#include "starling/runtime/execution/replay.h"

namespace starling::runtime {

std::unique_ptr<DeviceRecording> make_cuda_replay(int) { return nullptr; }

std::unique_ptr<DeviceTimer> make_cuda_timer(int) { return nullptr; }

}  // namespace starling::runtime
