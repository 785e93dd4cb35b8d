#include "starling/nn/declared.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/base/error_text.h"
#include "starling/nn/infer.h"
#include "starling/nn/layer_kinds.h"
#include "starling/nn/wired.h"

namespace starling::nn {
namespace {

constexpr const char* kInput = "input";

// One layer of the list, parsed.
struct Entry {
  ConfigNode place;
  Chosen<LayerMaker> chosen;
  std::string name;
  std::vector<std::string> from;
};

Chosen<LayerMaker> with_defaults(const ConfigNode& word) {
  const std::string name = word.as_string();
  const auto& kinds = layer_kinds();
  if (!kinds.contains(name)) {
    if (name.find(" - ") != std::string::npos)
      word.refuse("a layer behind each dash, with all dashes in one column",
                  fmt::format("'{}' (a dash that is indented deeper goes on with the text above it)", name));
    const std::string near = nearest(name, kinds.names());
    word.refuse("the name of a layer",
                fmt::format("'{}'{}", name, near.empty() ? "" : " (did you mean '" + near + "'?)"));
  }
  Chosen<LayerMaker> chosen = kinds.by_name(name);
  for (const auto& setting : chosen.kind->settings) {
    if (setting.required) word.refuse(fmt::format("{}: {{{}: …}}", name, setting.key), "none of its options");
  }
  return chosen;
}

// Refuses options that stand beside their layer instead of below it, and keys that are like no layer's name, of which
// there are too many to list.
void expect_layer_keys(const ConfigNode& map) {
  const auto& kinds = layer_kinds();
  std::string layer;  // without options
  for (const auto& [key, value] : map.as_map()) {
    if (kinds.contains(key) && value.is_null()) layer = key;
  }
  for (const auto& [key, value] : map.as_map()) {
    if (kinds.contains(key) || key == "name" || key == "from") continue;
    const auto& settings = layer.empty() ? Settings{} : kinds.all().at(layer).settings;
    const bool option =
        std::any_of(settings.begin(), settings.end(), [&name = key](const auto& one) { return one.key == name; });
    if (option)  // of the whole layer, so that the option is not told to be missing below it too
      throw ConfigError(
          fmt::format("{}: [config] expected options below their layer, {}: {{{}: …}}, got '{}' beside it "
                      "(indent it deeper than '{}:')",
                      value.where(), layer, key, key, layer),
          map.path());
    if (nearest(key, kinds.names()).empty() && nearest(key, {"name", "from"}).empty())
      value.refuse(
          fmt::format("the name of a layer (`starling layers` lists all {}), name or from", kinds.all().size()),
          fmt::format("'{}'", key));
  }
}

// Kind and options of a layer given as a map.
Chosen<LayerMaker> with_options(const ConfigNode& map) {
  expect_layer_keys(map);
  std::vector<std::string> keys = layer_kinds().names();
  keys.insert(keys.end(), {"name", "from"});
  map.allow_keys(keys);
  std::vector<std::pair<std::string, ConfigNode>> kinds = map.as_map();
  std::erase_if(kinds, [](const auto& entry) { return entry.first == "name" || entry.first == "from"; });
  if (kinds.size() != 1) map.refuse("one layer", kinds.empty() ? "none" : fmt::format("{}", kinds.size()));
  return layer_kinds().choose_named(kinds[0].first, kinds[0].second, kinds[0].second);
}

std::vector<std::string> sources(const ConfigNode& node) {
  if (!node.is_list()) return {node.as_string()};
  std::vector<std::string> names;
  for (const auto& item : node.as_list()) names.push_back(item.as_string());
  if (names.empty()) node.refuse("at least one name", "none");
  return names;
}

// Entries of one list, with names assigned and checked.
class Entries {
 public:
  explicit Entries(const ConfigNode& layers) {
    const auto items = layers.as_list();
    if (items.empty()) layers.refuse("at least one layer", "none");
    for (const auto& item : items) add(item);
    for (std::size_t i = 0; i + 1 < all_.size(); ++i) {
      if (!read_.contains(all_[i].name))
        all_[i].place.refuse(fmt::format("somebody to read what '{}' makes", all_[i].name), "nobody");
    }
  }
  const std::vector<Entry>& all() const { return all_; }

 private:
  void add(const ConfigNode& item) {
    Entry entry{item, item.is_map() ? with_options(item) : with_defaults(item), "", {}};
    entry.name = name_of(item, entry.chosen.name);
    const auto from = item.is_map() ? item.find("from") : std::nullopt;
    entry.from = from ? sources(*from) : std::vector<std::string>{all_.empty() ? kInput : all_.back().name};
    for (const auto& source : entry.from) {
      if (!known_.contains(source)) refuse_source(*from, source, entry.name);
      read_.insert(source);
    }
    known_.insert(entry.name);
    all_.push_back(std::move(entry));
  }

  // Given name, or the kind and a number.
  std::string name_of(const ConfigNode& item, const std::string& kind) {
    const int number = ++numbers_[kind];
    const auto given = item.is_map() ? item.find("name") : std::nullopt;
    std::string name = given ? given->as_string() : fmt::format("{}_{}", kind, number);
    const ConfigNode& place = given ? *given : item;
    if (name.empty() || name.find('.') != std::string::npos || name == kInput)
      place.refuse("a name without dots, other than 'input'", fmt::format("'{}'", name));
    if (known_.contains(name)) place.refuse("a new name", fmt::format("'{}' again", name));
    return name;
  }

  void refuse_source(const ConfigNode& place, const std::string& source, const std::string& of) const {
    const std::vector<std::string> names(known_.begin(), known_.end());
    const std::string near = nearest(source, names);
    place.refuse(fmt::format("the name of a layer before '{}'", of),
                 fmt::format("'{}'{}", source, near.empty() ? "" : " (did you mean '" + near + "'?)"));
  }

  std::vector<Entry> all_;
  std::set<std::string> known_{kInput}, read_;
  std::map<std::string, int> numbers_;
};

std::string listed(std::span<const TensorType> types) {
  std::string text;
  for (const auto& type : types) text += (text.empty() ? "" : " and ") + to_string(type);
  return text;
}

// True for errors of inner lists, which already have file and line; errors of layers have none.
bool has_place(const std::string& message) {
  return message.find(": [config]") != std::string::npos || message.find(": [layers]") != std::string::npos;
}

DeclaredNet make(const Entry& entry, std::span<const TensorType> samples) {
  try {
    const std::shared_ptr<Module> module = entry.chosen.make()(samples);
    return {module, sample_type(*module, samples)};
  } catch (const Error& error) {
    const std::string message = error.what();
    if (has_place(message)) throw;
    const bool plain = entry.name.starts_with(entry.chosen.name);
    throw ConfigError(
        fmt::format("{}: [layers] expected '{}'{} to fit samples {}, got: {}", entry.place.where(), entry.name,
                    plain ? "" : " (" + entry.chosen.name + ")", listed(samples), without_rank(message)),
        entry.place.path());
  }
}

}  // namespace

DeclaredNet declared_layers(const ConfigNode& layers, const TensorType& sample) {
  const Entries entries(layers);
  std::map<std::string, TensorType> types{{kInput, sample}};
  auto net = std::make_shared<Wired>();
  for (const auto& entry : entries.all()) {
    std::vector<TensorType> samples;
    for (const auto& source : entry.from) samples.push_back(types.at(source));
    DeclaredNet made = make(entry, samples);
    types.emplace(entry.name, made.sample);
    net->add_shared(entry.name, std::move(made.module), entry.from);
  }
  return {net, types.at(entries.all().back().name)};
}

std::shared_ptr<Module> declared_net(const ConfigNode& layers, const TensorType& sample) {
  return declared_layers(layers, sample).module;
}

std::shared_ptr<Module> declared_net(const ConfigNode& layers, const Shape& sample) {
  return declared_net(layers, TensorType{reads_ids(layers) ? DType::i64 : DType::f32, sample});
}

bool reads_ids(const ConfigNode& layers) {
  const Entries entries(layers);
  const auto& all = entries.all();
  return all[0].chosen.name == "embedding" || all[0].chosen.name == "embedding_bag";
}

void check_layers(const ConfigNode& layers) { const Entries entries(layers); }

nlohmann::json layers_schema_defs() {
  using nlohmann::json;
  const json name = {{"type", "string"}, {"description", "what other layers call it; its path in the network"}};
  const json from = {
      {"description", "what it reads instead of the layer before: names of layers, or input"},
      {"anyOf", {{{"type", "string"}}, {{"type", "array"}, {"items", {{"type", "string"}}}, {"minItems", 1}}}}};
  json words = json::array(), alternatives = json::array();
  for (const auto& [kind, known] : layer_kinds().all()) {
    json options = settings_schema(known.settings, known.defaults.get());
    if (!options.contains("required")) {
      words.push_back(kind);
      options = {{"anyOf", {options, {{"type", "null"}}}}};
    }
    alternatives.push_back({{"type", "object"},
                            {"description", known.doc},
                            {"properties", {{kind, options}, {"name", name}, {"from", from}}},
                            {"required", {kind}},
                            {"additionalProperties", false}});
  }
  alternatives.insert(alternatives.begin(), json{{"enum", words}});
  return {{"layer", {{"oneOf", alternatives}}},
          {"layers", {{"type", "array"}, {"items", {{"$ref", "#/$defs/layer"}}}, {"minItems", 1}}}};
}

nlohmann::json layers_schema() {
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"$ref", "#/$defs/layers"},
          {"$defs", layers_schema_defs()}};
}

}  // namespace starling::nn
