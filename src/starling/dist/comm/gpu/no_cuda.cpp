// Stands in for cuda/ in builds without CUDA.
#include "starling/dist/comm/gpu/device_reach.h"

namespace starling::dist {

std::shared_ptr<DeviceReach> make_cuda_reach(int) { return nullptr; }

}  // namespace starling::dist
