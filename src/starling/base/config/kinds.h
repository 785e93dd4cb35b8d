#pragma once

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "starling/base/config/nearest.h"
#include "starling/base/config/settings.h"
#include "starling/base/error.h"

namespace starling {

// Entry of a registry: something a job file can construct by name, with its own options.
template <class Product>
struct Kind {
  std::string doc;
  Settings settings;
  std::shared_ptr<const void> defaults;  // default options
  std::function<std::shared_ptr<const void>(const ConfigNode& map, const std::vector<std::string>& also)> read;
  std::function<Product(const void* options)> make;
};

// A kind together with chosen options.
template <class Product>
struct Chosen {
  std::string name;
  const Kind<Product>* kind = nullptr;
  std::shared_ptr<const void> options;

  Product make() const { return kind->make(options.get()); }
  nlohmann::json json() const { return settings_json(kind->settings, options.get()); }  // without the name
};

// Registry of kinds by name. Filled once by the generated registration functions of a folder, then read-only; Chosen
// points into it.
template <class Product>
class Kinds {
 public:
  // `make` is called with `const Options&`.
  template <HasSettings Options, class F>
  void add(const std::string& name, const std::string& doc, F make) {
    check(!kinds_.contains(name), "[kinds] expected a new name, got '{}' again", name);
    kinds_[name] = {
        .doc = doc,
        .settings = Options::settings(),
        .defaults = std::make_shared<const Options>(),
        .read = [](const ConfigNode& map, const std::vector<std::string>& also) -> std::shared_ptr<const void> {
          return std::make_shared<const Options>(read_settings<Options>(map, also));
        },
        .make = [make = std::move(make)](const void* options) -> Product {
          return make(*static_cast<const Options*>(options));
        }};
  }

  const std::map<std::string, Kind<Product>>& all() const { return kinds_; }
  bool contains(const std::string& name) const { return kinds_.contains(name); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, kind] : kinds_) all.push_back(name);
    return all;
  }

  // The kind with default options; an unknown name throws and suggests the nearest.
  Chosen<Product> by_name(const std::string& name) const {
    const auto found = kinds_.find(name);
    if (found == kinds_.end()) fail("[kinds] expected {}, got '{}'{}", expected(), name, hint(name));
    return {name, &found->second, found->second.defaults};
  }

  // Reads a map {name: adam, lr: 0.001}: the key `name` chooses the kind, the others are its options; keys in `also`
  // are ignored here. Errors carry the place of the wrong value.
  Chosen<Product> choose(const ConfigNode& map, std::vector<std::string> also = {},
                         const std::string& fallback = "") const {
    map.expect_map(
        fmt::format("a name, as {0}, or a map with it, {{name: {0}}}", fallback.empty() ? names().front() : fallback));
    const auto given = map.find("name");
    const std::string name = given || fallback.empty() ? map.at("name").as_string() : fallback;
    also.emplace_back("name");
    return choose_named(name, given ? *given : map, map, also);
  }

  // As choose(), with the name given separately (`- conv2d: {out: 20}`); `place` is where it stands, for errors.
  Chosen<Product> choose_named(const std::string& name, const ConfigNode& place, const ConfigNode& options,
                               const std::vector<std::string>& also = {}) const {
    const auto found = kinds_.find(name);
    if (found == kinds_.end()) place.refuse(expected(), fmt::format("'{}'{}", name, hint(name)));
    return {name, &found->second, found->second.read(options, also)};
  }

  // JSON Schema: one alternative for each kind.
  nlohmann::json schema() const {
    nlohmann::json alternatives = nlohmann::json::array();
    for (const auto& [name, kind] : kinds_) {
      nlohmann::json one = settings_schema(kind.settings, kind.defaults.get());
      one["description"] = kind.doc;
      one["properties"]["name"] = {{"const", name}};
      one["required"].push_back("name");
      alternatives.push_back(std::move(one));
    }
    return {{"oneOf", alternatives}};
  }

 private:
  std::string expected() const { return fmt::format("one of ({})", fmt::join(names(), ", ")); }
  std::string hint(const std::string& name) const {
    const std::string near = nearest(name, names());
    return near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near);
  }

  std::map<std::string, Kind<Product>> kinds_;
};

struct NoSettings {
  static Settings settings() { return {}; }
};

}  // namespace starling
