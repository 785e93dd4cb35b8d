#include "starling/train/checkpoint/environment.h"

#include <fmt/format.h>

#include "starling/base/version.h"

namespace starling::train {
namespace {

const char* isa() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) return "avx512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
  return "baseline";
}

}  // namespace

nlohmann::json environment_facts() { return {{"isa", isa()}, {"starling", kVersion}, {"compiler", __VERSION__}}; }

std::vector<std::string> environment_differences(const nlohmann::json& saved, const nlohmann::json& now) {
  std::vector<std::string> differences;
  for (const auto& [key, value] : now.items()) {
    const nlohmann::json before = saved.is_object() ? saved.value(key, nlohmann::json()) : nlohmann::json();
    if (before != value) differences.push_back(fmt::format("{} was {}, is {}", key, before.dump(), value.dump()));
  }
  return differences;
}

}  // namespace starling::train
