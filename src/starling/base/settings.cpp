#include "starling/base/settings.h"

namespace starling {

void read_settings(const Settings& settings, const ConfigNode& map, void* options,
                   const std::vector<std::string>& also) {
  std::vector<std::string> keys = also;
  for (const auto& setting : settings) keys.push_back(setting.key);
  map.allow_keys(keys);
  for (const auto& setting : settings) {
    if (setting.required) map.at(setting.key);  // throws, naming the missing key
    if (const auto value = map.find(setting.key)) setting.read(options, *value);
  }
}

nlohmann::json settings_json(const Settings& settings, const void* options) {
  nlohmann::json all = nlohmann::json::object();
  for (const auto& setting : settings) all[setting.key] = setting.value(options);
  return all;
}

nlohmann::json settings_schema(const Settings& settings, const void* options) {
  nlohmann::json properties = nlohmann::json::object();
  nlohmann::json required = nlohmann::json::array();
  for (const auto& setting : settings) {
    nlohmann::json property = setting.schema;
    property["description"] = setting.doc;
    if (setting.required) {
      required.push_back(setting.key);
    } else {
      property["default"] = setting.value(options);
    }
    properties[setting.key] = std::move(property);
  }
  nlohmann::json schema = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = required;
  return schema;
}

namespace detail {

nlohmann::json number_schema(const char* type, SettingRange range) {
  nlohmann::json schema = {{"type", type}};
  const bool whole = std::string_view(type) == "integer";
  const auto bound = [&](double value) {
    return whole ? nlohmann::json(static_cast<std::int64_t>(value)) : nlohmann::json(value);
  };
  if (std::isfinite(range.min)) schema["minimum"] = bound(range.min);
  if (std::isfinite(range.max)) schema["maximum"] = bound(range.max);
  return schema;
}

IntRange int_range(SettingRange range) {
  IntRange whole;
  if (std::isfinite(range.min)) whole.min = static_cast<std::int64_t>(range.min);
  if (std::isfinite(range.max)) whole.max = static_cast<std::int64_t>(range.max);
  return whole;
}

nlohmann::json choice_schema(const std::vector<std::string>& names) { return {{"enum", names}}; }

}  // namespace detail
}  // namespace starling
