#include "starling/tensor/device.h"

#include <charconv>

namespace starling {

std::string_view name(DeviceKind kind) {
  constexpr std::string_view names[] = {"cpu", "cuda", "null"};
  return names[static_cast<int>(kind)];
}

std::string to_string(Device device) {
  return std::string(name(device.kind)) + ":" + std::to_string(static_cast<int>(device.index));
}

std::optional<Device> parse_device(std::string_view text) {
  const auto colon = text.find(':');
  const auto kind = text.substr(0, colon);
  int index = 0;
  if (colon != std::string_view::npos) {
    const auto digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end != digits.data() + digits.size() || index < 0 || index > 255) return std::nullopt;
  }
  for (auto k : {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::null}) {
    if (name(k) == kind) return Device{k, static_cast<std::uint8_t>(index)};
  }
  return std::nullopt;
}

}  // namespace starling
