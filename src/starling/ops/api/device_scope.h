#pragma once

#include <optional>

#include "starling/tensor/device.h"

namespace starling {

// Device request for multi-device programs (runtime/placed/placed.h): ops traced in the scope run on the device, and
// variables first read in it live there. Their gradients follow. Eager code makes values without operands (ones, randn)
// on a GPU whose scope it is in; apart from that it runs where its operands lie. Single-device programs ignore it.
class DeviceScope {
 public:
  explicit DeviceScope(Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device device_;
  const Device* before_;
};

std::optional<Device> current_device();  // device of the innermost scope

}  // namespace starling
