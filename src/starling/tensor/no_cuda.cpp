#include "starling/base/error.h"
#include "starling/tensor/device_copies.h"
#include "starling/tensor/device_memory.h"

namespace starling {

const DeviceMemory& cuda_memory() {
  fail("[device] expected a build with CUDA, got one without (configure with STARLING_CUDA=ON)");
}

std::shared_ptr<DeviceCopies> make_cuda_copies(int) {
  fail("[device] expected a build with CUDA, got one without (configure with STARLING_CUDA=ON)");
}

bool built_with_cuda() { return false; }
int cuda_device_count() { return 0; }

}  // namespace starling
