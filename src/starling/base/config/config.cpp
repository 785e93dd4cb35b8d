#include "starling/base/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "starling/base/config/config_tree.h"
#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/base/file/file.h"

namespace starling {
namespace {

using Kind = ConfigTree::Kind;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::size_t kMostQuoted = 60;  // characters of a wrong value that a message repeats

template <class T>
std::optional<T> parse_number(std::string_view text) {
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near);
}

// "one of (a, b)"; of very many, as the layers are, only the first beside a suggestion, which would be lost among them.
std::string one_of(std::vector<std::string> names, bool suggested) {
  constexpr std::size_t kVeryMany = 40;
  constexpr std::size_t kFirst = 5;
  if (!suggested || names.size() <= kVeryMany) return fmt::format("one of ({})", fmt::join(names, ", "));
  const std::size_t all = names.size();
  names.resize(kFirst);
  return fmt::format("one of {} names ({}, …)", all, fmt::join(names, ", "));
}

// "a map of settings (a, b, c, …)".
std::string map_of(std::vector<std::string> names) {
  constexpr std::size_t kShown = 4;
  if (names.empty()) return "no options, or an empty map";
  const bool more = names.size() > kShown;
  if (more) names.resize(kShown);
  return fmt::format("a map of settings ({}{})", fmt::join(names, ", "), more ? ", …" : "");
}

std::string joined(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string clipped(std::string_view text) {
  return text.size() <= kMostQuoted ? std::string(text) : std::string(text.substr(0, kMostQuoted)) + "…";
}

std::vector<std::string> to_strings(std::initializer_list<std::string_view> words) {
  return {words.begin(), words.end()};
}

std::string describe_range(const char* what, const std::string& min, const std::string& max, bool has_min,
                           bool has_max) {
  if (has_min && has_max) return fmt::format("{} from {} to {}", what, min, max);
  if (has_min) return fmt::format("{} of at least {}", what, min);
  if (has_max) return fmt::format("{} of at most {}", what, max);
  return what;
}

std::string describe(IntRange range) {
  return describe_range("an integer", std::to_string(range.min), std::to_string(range.max), range.min != IntRange{}.min,
                        range.max != IntRange{}.max);
}
std::string describe(NumberRange range) {
  return describe_range("a number", fmt::format("{}", range.min), fmt::format("{}", range.max),
                        std::isfinite(range.min), std::isfinite(range.max));
}

}  // namespace

ConfigNode ConfigNode::load(const std::filesystem::path& file, std::span<const std::string> overrides,
                            Repeated repeated) {
  return parse(read_file(file, kMostBytes).value(), file.string(), overrides, repeated);
}

ConfigNode ConfigNode::parse(const std::string& text, const std::string& file, std::span<const std::string> overrides,
                             Repeated repeated) {
  auto root = std::make_shared<ConfigTree>(parse_config_tree(text, file));
  if (repeated == Repeated::refuse && !root->repeated.empty()) throw Error(root->repeated.front());
  for (const auto& assignment : overrides) apply_override(*root, assignment);
  const ConfigTree* top = root.get();
  return {std::move(root), top, ""};
}

const std::vector<std::string>& ConfigNode::repeated() const { return root_->repeated; }
const std::string& ConfigNode::where() const { return tree_->where; }
bool ConfigNode::is_null() const { return tree_->kind == Kind::null; }
bool ConfigNode::is_scalar() const { return tree_->kind == Kind::scalar; }
bool ConfigNode::is_list() const { return tree_->kind == Kind::list; }
bool ConfigNode::is_map() const { return tree_->kind == Kind::map; }

std::string ConfigNode::described() const {
  switch (tree_->kind) {
    case Kind::null: return "nothing";
    case Kind::list: return fmt::format("a list of {}", tree_->items.size());
    case Kind::map: return fmt::format("a map of {}", tree_->entries.size());
    case Kind::scalar: break;
  }
  return tree_->quoted ? fmt::format("the quoted '{}'", clipped(tree_->text))
                       : fmt::format("'{}'", clipped(tree_->text));
}

void ConfigNode::refuse(std::string_view expected, std::string_view given) const {
  const std::string at = path_.empty() ? "" : fmt::format(" for {}", path_);
  throw ConfigError(fmt::format("{}: [config] expected {}{}, got {}", where(), expected, at, given), path_);
}

// A folder named ~ is never what was meant: shells expand ~/ only where it begins a word, and YAML files never.
std::string ConfigNode::as_string() const {
  if (!is_scalar()) refuse("a string", described());
  if (!tree_->text.starts_with("~/")) return tree_->text;
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') refuse("the variable HOME to be set where a path begins with ~/", described());
  return home + tree_->text.substr(1);
}

std::int64_t ConfigNode::as_int(IntRange range) const {
  const auto value = is_scalar() && !tree_->quoted ? parse_number<std::int64_t>(tree_->text) : std::nullopt;
  if (!value || *value < range.min || *value > range.max) refuse(describe(range), described());
  return *value;
}

double ConfigNode::as_double(NumberRange range) const {
  const auto value = is_scalar() && !tree_->quoted ? parse_number<double>(tree_->text) : std::nullopt;
  if (!value || !std::isfinite(*value) || *value < range.min || *value > range.max)
    refuse(describe(range), described());
  return *value;
}

bool ConfigNode::as_bool() const {
  const bool plain = is_scalar() && !tree_->quoted;
  if (plain && tree_->text == "true") return true;
  if (plain && tree_->text == "false") return false;
  const bool yes = tree_->text == "yes" || tree_->text == "on" || tree_->text == "True" || tree_->text == "1";
  const bool no = tree_->text == "no" || tree_->text == "off" || tree_->text == "False" || tree_->text == "0";
  refuse("true or false", described() + (yes ? " (write true)" : no ? " (write false)" : ""));
}

std::vector<ConfigNode> ConfigNode::as_list() const {
  if (!is_list()) refuse("a list", described() + (is_scalar() ? fmt::format(" (write [{}])", tree_->text) : ""));
  std::vector<ConfigNode> list;
  for (std::size_t i = 0; i < tree_->items.size(); ++i) {
    if (!tree_->items[i].removed) list.push_back(child(tree_->items[i], std::to_string(i)));
  }
  return list;
}

std::vector<std::pair<std::string, ConfigNode>> ConfigNode::as_map() const {
  expect_map();
  std::vector<std::pair<std::string, ConfigNode>> map;
  for (const auto& entry : tree_->entries) map.emplace_back(entry.key, child(entry.value, entry.key));
  return map;
}

std::size_t ConfigNode::as_choice(std::initializer_list<std::string_view> choices) const {
  return as_choice(to_strings(choices));
}

std::size_t ConfigNode::as_choice(const std::vector<std::string>& names) const {
  const std::string text = is_scalar() ? tree_->text : "";
  for (std::size_t i = 0; is_scalar() && i < names.size(); ++i) {
    if (names[i] == text) return i;
  }
  refuse(fmt::format("one of ({})", fmt::join(names, ", ")), described() + suggestion(text, names));
}

ConfigNode ConfigNode::child(const ConfigTree& tree, std::string_view key) const {
  return {root_, &tree, joined(path_, key)};
}

void ConfigNode::expect_map(const std::string& meant) const {
  if (is_map() || is_null()) return;
  const std::string own = path_.substr(path_.rfind('.') + 1);  // the whole path where there is no dot
  refuse(meant.empty() ? fmt::format("a map, '{}: {{setting: value}}'", own.empty() ? "key" : own) : meant,
         described());
}

std::optional<ConfigNode> ConfigNode::find(std::string_view key) const {
  expect_map();
  const auto* entry = tree_->find(key);
  if (entry == nullptr || entry->value.kind == Kind::null) return std::nullopt;
  return child(entry->value, key);
}

ConfigNode ConfigNode::at(std::string_view key) const {
  auto entry = find(key);
  if (entry) return *entry;
  if (const auto* empty = tree_->find(key))
    throw ConfigError(fmt::format("{}: [config] expected a value for {}, got nothing behind '{}:'", empty->where,
                                  joined(path_, key), key),
                      path_, std::string(key));
  const std::string at = path_.empty() ? "" : fmt::format(" for {}", path_);
  throw ConfigError(fmt::format("{}: [config] expected the key '{}'{}, got none (add '{}: …')", where(), key, at, key),
                    path_, std::string(key));
}

void ConfigNode::allow_keys(std::initializer_list<std::string_view> keys) const { allow_keys(to_strings(keys)); }

void ConfigNode::allow_keys(const std::vector<std::string>& names) const {
  expect_map(map_of(names));
  for (const auto& entry : tree_->entries) {
    if (std::find(names.begin(), names.end(), entry.key) != names.end()) continue;
    if (names.empty())
      throw ConfigError(fmt::format("{}: [config] expected no options{}, which has none, got '{}' (leave it out)",
                                    entry.where, path_.empty() ? "" : " for " + path_, clipped(entry.key)),
                        joined(path_, entry.key));
    const std::string meant = suggestion(clipped(entry.key), names);
    throw UnknownKey(fmt::format("{}: [config] expected {}{}, got '{}'", entry.where, one_of(names, !meant.empty()),
                                 path_.empty() ? "" : " in " + path_, clipped(entry.key)),
                     meant, joined(path_, entry.key), entry.key, entry.where);
  }
}

std::string ConfigNode::get_string(std::string_view key, std::string fallback) const {
  const auto entry = find(key);
  return entry ? entry->as_string() : std::move(fallback);
}

std::int64_t ConfigNode::get_int(std::string_view key, std::int64_t fallback, IntRange range) const {
  const auto entry = find(key);
  return entry ? entry->as_int(range) : fallback;
}

double ConfigNode::get_double(std::string_view key, double fallback, NumberRange range) const {
  const auto entry = find(key);
  return entry ? entry->as_double(range) : fallback;
}

bool ConfigNode::get_bool(std::string_view key, bool fallback) const {
  const auto entry = find(key);
  return entry ? entry->as_bool() : fallback;
}

namespace {

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Removes the value with this path; returns whether it was found.
bool erase(ConfigTree& tree, const std::string& at, const std::string& path) {
  for (std::size_t i = 0; i < tree.entries.size(); ++i) {
    const std::string here = joined(at, tree.entries[i].key);
    if (here == path) {
      tree.entries.erase(tree.entries.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    if (erase(tree.entries[i].value, here, path)) return true;
  }
  for (std::size_t i = 0; i < tree.items.size(); ++i) {
    const std::string here = joined(at, std::to_string(i));
    if (here == path) {
      tree.items[i].removed = true;
      return true;
    }
    if (erase(tree.items[i], here, path)) return true;
  }
  return false;
}

}  // namespace

ConfigNode ConfigNode::without(const std::string& path) const {
  auto copy = std::make_shared<ConfigTree>(*root_);
  erase(*copy, "", path);
  const ConfigTree* top = copy.get();
  return {std::move(copy), top, ""};
}

namespace {

// Errors found in a file so far. An error that only follows from one of them is not reported again.
class Told {
 public:
  // True for the consequence of an earlier error: a key that is missing since it failed to parse or was misspelt, or a
  // map that is incomplete without a value that was wrong.
  bool implies(const ConfigError& error) const {
    const std::string missing = error.missing().empty() ? "" : joined(error.path(), error.missing());
    if (!missing.empty()) return contains(removed_, missing) || misspelt(error.path(), error.missing());
    return std::any_of(removed_.begin(), removed_.end(),
                       [&](const auto& path) { return path.starts_with(error.path() + "."); });
  }
  void remove(const std::string& path) { removed_.push_back(path); }
  void add(std::string message) { errors_.push_back(std::move(message)); }
  const std::vector<std::string>& errors() const { return errors_; }

 private:
  bool misspelt(const std::string& map, const std::string& key) const {
    const std::string place = fmt::format(" in {}, got ", map);
    const std::string meant = fmt::format("(did you mean '{}'?)", key);
    return std::any_of(errors_.begin(), errors_.end(), [&](const std::string& told) {
      return told.find(place) != std::string::npos && told.ends_with(meant);
    });
  }

  std::vector<std::string> removed_;  // paths of values that were wrong
  std::vector<std::string> errors_;
};

}  // namespace

std::vector<std::string> config_errors(ConfigNode top, const std::function<void(const ConfigNode&)>& read) {
  constexpr std::size_t kMostErrors = 100;
  Told told;
  for (std::size_t tries = 0; tries < 2 * kMostErrors && told.errors().size() < kMostErrors; ++tries) {
    try {
      read(top);
      break;
    } catch (const ConfigError& error) {
      const bool stuck = contains(told.errors(), error.what());
      if (!stuck && !told.implies(error)) told.add(error.what());
      if (error.path().empty() || stuck) break;
      told.remove(error.path());
      top = top.without(error.path());
    } catch (const Error& error) {
      told.add(error.what());
      break;
    }
  }
  return told.errors();
}

}  // namespace starling
