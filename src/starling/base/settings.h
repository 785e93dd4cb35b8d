#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "starling/base/config.h"

namespace starling {

// Options that a job file can give are a plain struct that lists its fields:
//   struct AdamOptions {
//     double lr = 1e-3;
//     bool amsgrad = false;
//     static Settings settings() {
//       return {setting("lr", &AdamOptions::lr, "the learning rate", {.min = 0}),
//               setting("amsgrad", &AdamOptions::amsgrad, "divide by the largest second moment so far")};
//     }
//   };
// Reading, printing, the JSON Schema and the documentation follow from the list; code uses the struct.
struct Setting {
  std::string key;
  std::string doc;
  nlohmann::json schema;                                             // JSON Schema of the value, without its default
  std::function<void(void* options, const ConfigNode& value)> read;  // errors carry the place of the value
  std::function<nlohmann::json(const void* options)> value;          // current value as JSON, which is YAML too
  bool required = false;
};
using Settings = std::vector<Setting>;

// Inclusive bounds of a number, or of each number in a list.
struct SettingRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

template <class T>
concept HasSettings = requires {
  { T::settings() } -> std::same_as<Settings>;
};

// Reads the entries of a map into a struct; missing keys keep their defaults. Throws on a key that is neither a setting
// nor in `also`, on a wrong value, and on a missing required key.
void read_settings(const Settings& settings, const ConfigNode& map, void* options,
                   const std::vector<std::string>& also = {});
nlohmann::json settings_json(const Settings& settings, const void* options);  // all values, in order
// JSON Schema of a map with exactly these settings; defaults are the values of `options`.
nlohmann::json settings_schema(const Settings& settings, const void* options);

template <HasSettings T>
T read_settings(const ConfigNode& map, const std::vector<std::string>& also = {}) {
  T options{};
  read_settings(T::settings(), map, &options, also);
  return options;
}
template <HasSettings T>
nlohmann::json settings_json(const T& options) {
  return settings_json(T::settings(), &options);
}
template <HasSettings T>
nlohmann::json settings_schema() {
  const T defaults{};
  return settings_schema(T::settings(), &defaults);
}

namespace detail {

nlohmann::json number_schema(const char* type, SettingRange range);
IntRange int_range(SettingRange range);

// Reading, printing and schema of one type of value.
template <class T>
struct SettingType;

template <>
struct SettingType<bool> {
  static nlohmann::json schema(SettingRange) { return {{"type", "boolean"}}; }
  static bool read(const ConfigNode& node, SettingRange) { return node.as_bool(); }
  static nlohmann::json json(bool value) { return value; }
};
template <>
struct SettingType<std::int64_t> {
  static nlohmann::json schema(SettingRange range) { return number_schema("integer", range); }
  static std::int64_t read(const ConfigNode& node, SettingRange range) { return node.as_int(int_range(range)); }
  static nlohmann::json json(std::int64_t value) { return value; }
};
template <>
struct SettingType<double> {
  static nlohmann::json schema(SettingRange range) { return number_schema("number", range); }
  static double read(const ConfigNode& node, SettingRange range) { return node.as_double({range.min, range.max}); }
  static nlohmann::json json(double value) { return value; }
};
template <>
struct SettingType<std::string> {
  static nlohmann::json schema(SettingRange) { return {{"type", "string"}}; }
  static std::string read(const ConfigNode& node, SettingRange) { return node.as_string(); }
  static nlohmann::json json(const std::string& value) { return value; }
};
template <>
struct SettingType<std::filesystem::path> {
  static nlohmann::json schema(SettingRange) { return {{"type", "string"}}; }
  static std::filesystem::path read(const ConfigNode& node, SettingRange) { return node.as_string(); }
  static nlohmann::json json(const std::filesystem::path& value) { return value.string(); }
};
template <HasSettings T>
struct SettingType<T> {
  static nlohmann::json schema(SettingRange) { return settings_schema<T>(); }
  static T read(const ConfigNode& node, SettingRange) { return read_settings<T>(node); }
  static nlohmann::json json(const T& value) { return settings_json(value); }
};
template <class T>
struct SettingType<std::vector<T>> {
  static nlohmann::json schema(SettingRange range) {
    return {{"type", "array"}, {"items", SettingType<T>::schema(range)}};
  }
  static std::vector<T> read(const ConfigNode& node, SettingRange range) {
    std::vector<T> list;
    for (const auto& item : node.as_list()) list.push_back(SettingType<T>::read(item, range));
    return list;
  }
  static nlohmann::json json(const std::vector<T>& value) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& item : value) list.push_back(SettingType<T>::json(item));
    return list;
  }
};
// Optional value: nullopt when the key is missing or null.
template <class T>
struct SettingType<std::optional<T>> {
  static nlohmann::json schema(SettingRange range) {
    return {{"anyOf", {SettingType<T>::schema(range), {{"type", "null"}}}}};
  }
  static std::optional<T> read(const ConfigNode& node, SettingRange range) { return SettingType<T>::read(node, range); }
  static nlohmann::json json(const std::optional<T>& value) {
    return value ? SettingType<T>::json(*value) : nlohmann::json();
  }
};

nlohmann::json choice_schema(const std::vector<std::string>& names);

}  // namespace detail

// Setting of type bool, std::int64_t, double, std::string, std::filesystem::path, a struct with settings, or a
// std::vector or std::optional of those.
template <class S, class T>
Setting setting(std::string key, T S::*member, std::string doc, SettingRange range = {}) {
  using Type = detail::SettingType<T>;
  return {
      .key = std::move(key),
      .doc = std::move(doc),
      .schema = Type::schema(range),
      .read = [member, range](void* options,
                              const ConfigNode& node) { static_cast<S*>(options)->*member = Type::read(node, range); },
      .value = [member](const void* options) { return Type::json(static_cast<const S*>(options)->*member); }};
}

// Setting of an enum whose values 0, 1, 2… have these names.
template <class S, class E>
  requires std::is_enum_v<E> Setting choice(std::string key, E S::*member, std::vector<std::string> names,
                                            std::string doc) {
    return {.key = std::move(key),
            .doc = std::move(doc),
            .schema = detail::choice_schema(names),
            .read =
                [member, names](void* options, const ConfigNode& node) {
                  static_cast<S*>(options)->*member = static_cast<E>(node.as_choice(names));
                },
            .value = [member, names](const void* options) -> nlohmann::json {
              return names.at(static_cast<std::size_t>(static_cast<const S*>(options)->*member));
            }};
  }

// Marks a setting as required.
inline Setting required(Setting setting) {
  setting.required = true;
  return setting;
}

}  // namespace starling
