#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "starling/base/error.h"

namespace starling {

struct ConfigTree;  // a value of the file; see config_tree.h

struct IntRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};
struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

// Thrown on a wrong value or a missing key. path() is the path of keys of the value, or of the map that lacks the key.
class ConfigError : public Error {
 public:
  ConfigError(const std::string& message, std::string path, std::string missing = "")
      : Error(message), path_(std::move(path)), missing_(std::move(missing)) {}
  const std::string& path() const { return path_; }
  const std::string& missing() const { return missing_; }  // the missing key; empty when the value itself is wrong

 private:
  std::string path_;
  std::string missing_;
};

// Thrown on a key that a map cannot have; path() ends with it.
class UnknownKey : public ConfigError {
 public:
  UnknownKey(const std::string& told, const std::string& suggestion, std::string path, std::string key,
             std::string where)
      : ConfigError(told + suggestion, std::move(path)),
        told_(told),
        key_(std::move(key)),
        where_(std::move(where)),
        suggests_(!suggestion.empty()) {}
  const std::string& told() const { return told_; }  // the message without the suggestion
  const std::string& key() const { return key_; }    // the whole path at the top of a file
  const std::string& where() const { return where_; }
  bool suggests() const { return suggests_; }  // the message names a key of the same map that may have been meant

 private:
  std::string told_;
  std::string key_;
  std::string where_;
  bool suggests_;
};

// A value in a YAML file with its place: file, line, column, and the path of keys that leads to it. A cheap handle to a
// tree that never changes; safe to read from any thread. Every error says where, what was expected and what was given:
//   job.yaml:7:3: [config] expected one of (model, data, optimizer), got 'optimzer' (did you mean 'optimizer'?)
// Files: at most 1 MiB, 32 levels, one document; anchors, aliases, tags and repeated keys are refused, these by load()
// and parse() unless the caller tells repeated() itself, beside what else is wrong.
class ConfigNode {
 public:
  // `overrides`: texts "a.b=value", applied in order before anything is read. The value is YAML; the path may name new
  // keys, and list elements by number. where() of such a value is "--set a.b".
  enum class Repeated { refuse, keep };
  static ConfigNode load(const std::filesystem::path& file, std::span<const std::string> overrides = {},
                         Repeated repeated = Repeated::refuse);
  static ConfigNode parse(const std::string& text, const std::string& file, std::span<const std::string> overrides = {},
                          Repeated repeated = Repeated::refuse);

  // A message for each key of the file that stands twice in its map; the first one counts.
  const std::vector<std::string>& repeated() const;

  const std::string& where() const;                  // job.yaml:7:3
  const std::string& path() const { return path_; }  // train.epochs; empty at the top

  // The value as a type.
  std::string as_string() const;
  std::int64_t as_int(IntRange range = {}) const;
  double as_double(NumberRange range = {}) const;  // finite
  bool as_bool() const;                            // true or false
  std::vector<ConfigNode> as_list() const;
  std::vector<std::pair<std::string, ConfigNode>> as_map() const;                // in file order
  std::size_t as_choice(std::initializer_list<std::string_view> choices) const;  // index of the given choice
  std::size_t as_choice(const std::vector<std::string>& choices) const;

  bool is_null() const;
  bool is_scalar() const;
  bool is_list() const;
  bool is_map() const;

  // Entries of this map. at() throws when the key is missing, find() returns nullopt; a null value counts as missing.
  ConfigNode at(std::string_view key) const;
  std::optional<ConfigNode> find(std::string_view key) const;
  void allow_keys(std::initializer_list<std::string_view> keys) const;  // throws on the first other key
  void allow_keys(const std::vector<std::string>& keys) const;
  // Throws unless this is a map or nothing; `meant` says what was expected instead: "a name, or a map …".
  void expect_map(const std::string& meant = "") const;

  // Entry of this map as a type, or the fallback when the key is missing.
  std::string get_string(std::string_view key, std::string fallback) const;
  std::int64_t get_int(std::string_view key, std::int64_t fallback, IntRange range = {}) const;
  double get_double(std::string_view key, double fallback, NumberRange range = {}) const;
  bool get_bool(std::string_view key, bool fallback) const;

  // Throws an Error that begins with where(); for the caller's own checks.
  [[noreturn]] void refuse(std::string_view expected, std::string_view given) const;

  // The whole file without the value at this path; unchanged when there is none.
  ConfigNode without(const std::string& path) const;

 private:
  ConfigNode(std::shared_ptr<const ConfigTree> root, const ConfigTree* tree, std::string path)
      : root_(std::move(root)), tree_(tree), path_(std::move(path)) {}

  ConfigNode child(const ConfigTree& tree, std::string_view key) const;
  std::string described() const;  // the value for messages: 'text', a list of 3, …

  std::shared_ptr<const ConfigTree> root_;
  const ConfigTree* tree_;
  std::string path_;
};

// All errors of a file, one message each: `read` is repeated, each time without the value that failed, until it
// succeeds or cannot go on.
std::vector<std::string> config_errors(ConfigNode top, const std::function<void(const ConfigNode&)>& read);

}  // namespace starling
