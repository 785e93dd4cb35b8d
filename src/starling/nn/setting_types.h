#pragma once

#include "starling/base/config/settings.h"
#include "starling/nn/init.h"
#include "starling/nn/options.h"

// Job-file syntax of the types in layers' options.
namespace starling::detail {

// 3 or [3, 5].
template <>
struct SettingType<nn::Sizes> {
  static nlohmann::json schema(SettingRange range);
  static nn::Sizes read(const ConfigNode& node, SettingRange range);
  static nlohmann::json json(const nn::Sizes& value);
};

// he_normal or {kind: truncated_normal, stddev: 0.02}.
template <>
struct SettingType<nn::Init> {
  static nlohmann::json schema(SettingRange range);
  static nn::Init read(const ConfigNode& node, SettingRange range);
  static nlohmann::json json(const nn::Init& value);
};

}  // namespace starling::detail
