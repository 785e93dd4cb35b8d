#pragma once

#include <optional>

#include "starling/tensor/device.h"

namespace starling {

// Ops traced while it lives are to run on the device, and variables first read there are to live there, when the
// program is placed over several devices (runtime/placed.h). The gradients of those ops follow them. Eager code and
// programs of one device take no notice.
class DeviceScope {
 public:
  explicit DeviceScope(Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  std::optional<Device> before_;
};

std::optional<Device> current_device();  // of the innermost scope

}  // namespace starling
