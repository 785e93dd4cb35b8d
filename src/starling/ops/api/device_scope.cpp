#include "starling/ops/api/device_scope.h"

#include "starling/base/thread/thread_context.h"

namespace starling {

DeviceScope::DeviceScope(Device device) : device_(device), before_(thread_context().device) {
  thread_context().device = &device_;
}
DeviceScope::~DeviceScope() { thread_context().device = before_; }

std::optional<Device> current_device() {
  const Device* asked_for = thread_context().device;
  return asked_for ? std::optional(*asked_for) : std::nullopt;
}

}  // namespace starling
