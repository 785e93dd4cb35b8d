#include "starling/base/config/settings.h"

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
nlohmann::json list_schema(const nlohmann::json& items) { return {{"type", "array"}, {"items", items}}; }
nlohmann::json nullable_schema(const nlohmann::json& value) { return {{"anyOf", {value, {{"type", "null"}}}}}; }

Setting make_setting(std::string_view key, std::string_view doc, ErasedMember member, const MemberType& type,
                     SettingRange range) {
  return {.key = std::string(key),
          .doc = std::string(doc),
          .schema = type.schema(range),
          .read = [member, &type, range](void* options,
                                         const ConfigNode& node) { type.read(member.in(options), node, range); },
          .value = [member, &type](const void* options) { return type.json(member.in(options)); }};
}

Setting make_choice(std::string_view key, std::string_view doc, ErasedMember member, const EnumType& type,
                    const std::vector<std::string>& names) {
  nlohmann::json schema = choice_schema(names);
  return {.key = std::string(key),
          .doc = std::string(doc),
          .schema = std::move(schema),
          .read = [member, &type, names](
                      void* options, const ConfigNode& node) { type.set(member.in(options), node.as_choice(names)); },
          .value = [member, &type, names](const void* options) -> nlohmann::json {
            return names.at(type.get(member.in(options)));
          }};
}

template <>
nlohmann::json PlainSettingType<bool>::schema(SettingRange) {
  return {{"type", "boolean"}};
}
template <>
bool PlainSettingType<bool>::read(const ConfigNode& node, SettingRange) {
  return node.as_bool();
}

template <>
nlohmann::json PlainSettingType<std::int64_t>::schema(SettingRange range) {
  return number_schema("integer", range);
}
template <>
std::int64_t PlainSettingType<std::int64_t>::read(const ConfigNode& node, SettingRange range) {
  return node.as_int(int_range(range));
}

template <>
nlohmann::json PlainSettingType<double>::schema(SettingRange range) {
  return number_schema("number", range);
}
template <>
double PlainSettingType<double>::read(const ConfigNode& node, SettingRange range) {
  return node.as_double({range.min, range.max});
}

template <>
nlohmann::json PlainSettingType<std::string>::schema(SettingRange) {
  return {{"type", "string"}};
}
template <>
std::string PlainSettingType<std::string>::read(const ConfigNode& node, SettingRange) {
  return node.as_string();
}

template <>
nlohmann::json PlainSettingType<std::filesystem::path>::schema(SettingRange) {
  return {{"type", "string"}};
}
template <>
std::filesystem::path PlainSettingType<std::filesystem::path>::read(const ConfigNode& node, SettingRange) {
  return node.as_string();
}
template <>
nlohmann::json PlainSettingType<std::filesystem::path>::json(const std::filesystem::path& value) {
  return value.string();
}
template <class T>
nlohmann::json PlainSettingType<T>::json(const T& value) {
  return value;
}

template struct PlainSettingType<bool>;
template struct PlainSettingType<std::int64_t>;
template struct PlainSettingType<double>;
template struct PlainSettingType<std::string>;
template struct PlainSettingType<std::filesystem::path>;

}  // namespace detail
}  // namespace starling
