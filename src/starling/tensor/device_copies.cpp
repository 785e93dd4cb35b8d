#include "starling/tensor/device_copies.h"

namespace starling {

std::shared_ptr<DeviceCopies> device_copies(Device device) {
  return device.kind == DeviceKind::cuda ? make_cuda_copies(device.index) : nullptr;
}

}  // namespace starling
