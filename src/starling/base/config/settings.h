#pragma once

#include <bit>
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

#include "starling/base/config/config.h"

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
nlohmann::json choice_schema(const std::vector<std::string>& names);
nlohmann::json list_schema(const nlohmann::json& items);
nlohmann::json nullable_schema(const nlohmann::json& value);
IntRange int_range(SettingRange range);

// Reading, printing and schema of one type of value.
template <class T>
struct SettingType;

// Types whose three functions are compiled in settings.cpp.
template <class T>
struct PlainSettingType {
  static nlohmann::json schema(SettingRange range);
  static T read(const ConfigNode& node, SettingRange range);
  static nlohmann::json json(const T& value);
};
template <>
struct SettingType<bool> : PlainSettingType<bool> {};
template <>
struct SettingType<std::int64_t> : PlainSettingType<std::int64_t> {};
template <>
struct SettingType<double> : PlainSettingType<double> {};
template <>
struct SettingType<std::string> : PlainSettingType<std::string> {};
template <>
struct SettingType<std::filesystem::path> : PlainSettingType<std::filesystem::path> {};

template <HasSettings T>
struct SettingType<T> {
  static nlohmann::json schema(SettingRange) { return settings_schema<T>(); }
  static T read(const ConfigNode& node, SettingRange) { return read_settings<T>(node); }
  static nlohmann::json json(const T& value) { return settings_json(value); }
};
template <class T>
struct SettingType<std::vector<T>> {
  static nlohmann::json schema(SettingRange range) { return list_schema(SettingType<T>::schema(range)); }
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
  static nlohmann::json schema(SettingRange range) { return nullable_schema(SettingType<T>::schema(range)); }
  static std::optional<T> read(const ConfigNode& node, SettingRange range) { return SettingType<T>::read(node, range); }
  static nlohmann::json json(const std::optional<T>& value) {
    return value ? SettingType<T>::json(*value) : nlohmann::json();
  }
};

// A member of an options struct without its types, so that one Setting is made by code that is compiled once, not once
// for every option of every struct.
struct ErasedMember {
  void* (*address)(void* options, std::intptr_t bits);
  std::intptr_t bits;  // of the pointer to member

  void* in(void* options) const { return address(options, bits); }
  const void* in(const void* options) const { return address(const_cast<void*>(options), bits); }
};
template <class S, class T>
ErasedMember erased_member(T S::*member) {
  static_assert(sizeof member == sizeof(std::intptr_t));
  return {[](void* options, std::intptr_t bits) -> void* {
            return &(static_cast<S*>(options)->*std::bit_cast<T S::*>(bits));
          },
          std::bit_cast<std::intptr_t>(member)};
}

struct MemberType {
  nlohmann::json (*schema)(SettingRange range);
  void (*read)(void* member, const ConfigNode& node, SettingRange range);
  nlohmann::json (*json)(const void* member);
};
template <class T>
constexpr MemberType kMemberType = {
    &SettingType<T>::schema,
    [](void* member, const ConfigNode& node, SettingRange range) {
      *static_cast<T*>(member) = SettingType<T>::read(node, range);
    },
    [](const void* member) { return SettingType<T>::json(*static_cast<const T*>(member)); }};

Setting make_setting(std::string_view key, std::string_view doc, ErasedMember member, const MemberType& type,
                     SettingRange range);

struct EnumType {
  void (*set)(void* member, std::size_t value);
  std::size_t (*get)(const void* member);
};
template <class E>
constexpr EnumType kEnumType = {
    [](void* member, std::size_t value) { *static_cast<E*>(member) = static_cast<E>(value); },
    [](const void* member) { return static_cast<std::size_t>(*static_cast<const E*>(member)); }};

Setting make_choice(std::string_view key, std::string_view doc, ErasedMember member, const EnumType& type,
                    const std::vector<std::string>& names);

}  // namespace detail

// Setting of type bool, std::int64_t, double, std::string, std::filesystem::path, a struct with settings, or a
// std::vector or std::optional of those.
template <class S, class T>
Setting setting(std::string_view key, T S::*member, std::string_view doc, SettingRange range = {}) {
  return detail::make_setting(key, doc, detail::erased_member(member), detail::kMemberType<T>, range);
}

// Setting of an enum whose values 0, 1, 2… have these names.
template <class S, class E>
  requires std::is_enum_v<E> Setting choice(std::string_view key, E S::*member, const std::vector<std::string>& names,
                                            std::string_view doc) {
    return detail::make_choice(key, doc, detail::erased_member(member), detail::kEnumType<E>, names);
  }

// Marks a setting as required.
inline Setting required(Setting setting) {
  setting.required = true;
  return setting;
}

}  // namespace starling
