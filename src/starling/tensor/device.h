#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace starling {

// cpu:k are logical CPUs, each with its own memory accounting (and a cap, if set). null holds shapes only: programs are
// planned and tested on it without hardware or memory.
enum class DeviceKind : std::uint8_t { cpu, cuda, null };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::uint8_t index = 0;
  friend bool operator==(Device, Device) = default;
};

inline constexpr Device kCpu{};

std::string_view name(DeviceKind kind);
std::string to_string(Device device);                       // cpu:0
std::optional<Device> parse_device(std::string_view text);  // "cpu", "cpu:1", "cuda:0", "null"

}  // namespace starling
