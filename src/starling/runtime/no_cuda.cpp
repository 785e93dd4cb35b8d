#include "starling/runtime/execution/replay.h"

namespace starling {

std::unique_ptr<DeviceRecording> make_cuda_replay(int) { return nullptr; }

}  // namespace starling
