#include "starling/tensor/memory_limit.h"

#include <charconv>

#include "starling/base/error.h"

namespace starling {
namespace {

constexpr std::int64_t kMostMegabytes = std::int64_t{1} << 40;

std::int64_t number(std::string_view part, std::string_view text) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  check(error == std::errc() && end == part.data() + part.size() && value >= 0 && value <= kMostMegabytes,
        "[allocator] expected {} as megabytes for every GPU (20000) or by its number (0=20000,1=8000), got '{}'",
        kGpuMemoryVariable, text);
  return value;
}

}  // namespace

std::int64_t gpu_memory_limit(std::string_view text, int gpu) {
  std::int64_t megabytes = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    const auto equals = part.find('=');
    const std::int64_t value = number(equals == std::string_view::npos ? part : part.substr(equals + 1), text);
    if (equals == std::string_view::npos || number(part.substr(0, equals), text) == gpu) megabytes = value;
  }
  return megabytes << 20;
}

}  // namespace starling
