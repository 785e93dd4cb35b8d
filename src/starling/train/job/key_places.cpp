#include "starling/train/job/key_places.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "starling/base/config/nearest.h"
#include "starling/train/job/job_sections.h"

namespace starling::train {
namespace {

using Keys = std::vector<std::string>;

constexpr std::size_t kMostPlaces = 2;

// The name of the kind that a section chooses, by its bare name or its key `by`; the fallback where it chooses none.
std::string kind_of(const ConfigNode& top, const char* section, const char* by, const std::string& fallback) {
  const auto node = top.is_map() ? top.find(section) : std::nullopt;
  if (!node) return fallback;
  if (node->is_scalar()) return node->as_string();
  const auto name = node->is_map() ? node->find(by) : std::nullopt;
  return name && name->is_scalar() ? name->as_string() : fallback;
}

template <class Product>
Keys options_of_kind(const Kinds<Product>& kinds, const std::string& name) {
  return kinds.contains(name) ? keys_of(kinds.all().at(name).settings) : Keys();
}

Keys both(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

Keys keys_of_section(const JobSection& section) { return both(keys_of(section.settings), section.lists); }

struct SectionKeys {
  std::string section;
  Keys keys;
};

// Sections in the order in which a key that several have is likeliest to have been meant.
std::vector<SectionKeys> all_keys(const ConfigNode& top) {
  const std::string source = kind_of(top, "data", "name", kDefaultSource);
  const std::string optimizer = kind_of(top, "optimizer", "name", kDefaultOptimizer);
  const std::string strategy = kind_of(top, "distribute", kStrategyKey, kDefaultStrategy);
  return {
      {"train", both(keys_of(TrainJob::settings()), {"objective", "metrics"})},
      {"optimizer", both(options_of_kind(optim::optimizer_kinds(), optimizer), keys_of_section(optimizer_section()))},
      {"distribute", both(keys_of_section(distribute_section()), options_of_kind(dist::strategy_kinds(), strategy))},
      {"data", both(keys_of_section(data_section()), options_of_kind(data::source_kinds(), source))},
      {"model", both(options_of_kind(zoo::nets(), kind_of(top, "model", "name", "")), {"layers"})},
      {"monitor", keys_of(MonitorOptions::settings())},
      {"schedule", options_of_kind(optim::schedule_kinds(), kind_of(top, "schedule", "name", ""))}};
}

std::vector<KeyPath> sections_with(const std::string& key, const std::vector<SectionKeys>& all) {
  std::vector<KeyPath> places;
  for (const auto& [section, keys] : all) {
    if (places.size() < kMostPlaces && std::find(keys.begin(), keys.end(), key) != keys.end())
      places.push_back({section, key});
  }
  return places;
}

std::vector<KeyPath> find_places(const std::string& key, const std::vector<SectionKeys>& all, bool exactly = false) {
  if (key == "name") return {};  // every kind has one
  if (auto exact = sections_with(key, all); exactly || !exact.empty()) return exact;
  Keys known;
  for (const auto& section : all) known = both(std::move(known), section.keys);
  const std::string near = nearest(key, known);
  return near.empty() || near == "name" ? std::vector<KeyPath>() : sections_with(near, all);
}

// The kinds of a registry that have this option.
template <class Product>
Keys kinds_with(const Kinds<Product>& kinds, const std::string& option) {
  Keys names;
  for (const auto& [name, kind] : kinds.all()) {
    const Keys keys = keys_of(kind.settings);
    if (std::find(keys.begin(), keys.end(), option) != keys.end()) names.push_back(name);
  }
  return names;
}

// " (an option of adam, adamw, not of sgd)" for a key that another kind of the same section has; empty: none has it.
std::string kind_hint(const std::string& section, const std::string& key, const ConfigNode& top) {
  constexpr std::size_t kMostNamed = 4;
  Keys names;
  std::string chosen;
  if (section == "optimizer") {
    names = kinds_with(optim::optimizer_kinds(), key);
    chosen = kind_of(top, "optimizer", "name", kDefaultOptimizer);
  } else if (section == "data") {
    names = kinds_with(data::source_kinds(), key);
    chosen = kind_of(top, "data", "name", kDefaultSource);
  } else if (section == "distribute") {
    names = kinds_with(dist::strategy_kinds(), key);
    chosen = kind_of(top, "distribute", kStrategyKey, kDefaultStrategy);
  } else if (section == "schedule") {
    names = kinds_with(optim::schedule_kinds(), key);
    chosen = kind_of(top, "schedule", "name", "this one");
  }
  if (names.empty()) return "";
  const bool more = names.size() > kMostNamed;
  if (more) names.resize(kMostNamed);
  return fmt::format(" (an option of {}{}, not of {})", fmt::join(names, ", "), more ? ", …" : "", chosen);
}

// "train" of a dotted key train.epochs at the top of a file, where dots have no meaning; empty: none.
std::string dotted_section(const std::string& key, const std::vector<SectionKeys>& all) {
  const std::string section = key.substr(0, key.find('.'));
  const bool known = std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.section == section; });
  return known && section.size() < key.size() ? section : "";
}

}  // namespace

std::vector<KeyPath> places_of(const std::string& key, const ConfigNode& top) {
  return find_places(key, all_keys(top));
}

std::vector<KeyPath> places_named(const std::string& key, const ConfigNode& top) {
  return find_places(key, all_keys(top), true);
}

std::string place_hint(const UnknownKey& error, const ConfigNode& top) {
  const auto all = all_keys(top);
  const bool set = error.where().starts_with("--set "), top_level = error.key() == error.path();
  if (const std::string section = top_level ? dotted_section(error.key(), all) : ""; !section.empty())
    return fmt::format(" (write '{}:' below '{}:'; paths with dots are for --set)",
                       error.key().substr(section.size() + 1), section);
  // Deeper ones are options of options, which have names of their own.
  if (std::count(error.path().begin(), error.path().end(), '.') > 1) return "";
  if (!top_level && !error.suggests()) {
    const std::string section = error.path().substr(0, error.path().find('.'));
    if (std::string of_kind = kind_hint(section, error.key(), top); !of_kind.empty()) return of_kind;
  }
  std::string meant;
  for (const auto& place : find_places(error.key(), all, error.suggests())) {
    const std::string one =
        set ? fmt::format("--set {}=…", place.path()) : fmt::format("'{}' below '{}:'", place.key, place.section);
    meant += (meant.empty() ? "" : " or ") + one;
  }
  return meant.empty() ? "" : fmt::format(" (did you mean {}?)", meant);
}

}  // namespace starling::train
