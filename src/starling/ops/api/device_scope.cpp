#include "starling/ops/api/device_scope.h"

namespace starling {
namespace {

thread_local std::optional<Device> asked_for;

}  // namespace

DeviceScope::DeviceScope(Device device) : before_(asked_for) { asked_for = device; }
DeviceScope::~DeviceScope() { asked_for = before_; }

std::optional<Device> current_device() { return asked_for; }

}  // namespace starling
