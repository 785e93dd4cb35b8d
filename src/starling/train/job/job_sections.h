#pragma once

#include <string>
#include <vector>

#include "starling/train/job/job.h"

namespace starling::train {

// Shared by the job_*.cpp files: how a section combines a chosen kind, a struct of settings and lists of kinds.

// Keys of a section beside the options of its chosen kind.
struct JobSection {
  Settings settings{};               // settings of the section's struct
  std::vector<std::string> lists{};  // keys whose values are lists of kinds
};
JobSection data_section();
JobSection optimizer_section();
JobSection distribute_section();

inline constexpr const char* kDefaultSource = "fashion_mnist";
inline constexpr const char* kDefaultOptimizer = "sgd";
inline constexpr const char* kDefaultStrategy = "allreduce";
inline constexpr const char* kStrategyKey = "strategy";  // key that names the kind in `distribute`

std::vector<std::string> keys_of(const Settings& settings);

// A config value as JSON: what looks like a number is one unless it was quoted.
OrderedJson node_json(const ConfigNode& node);

// Options of the network that are not decided yet, as they follow from the data; none for a declared network.
std::vector<std::string> open_options(const ModelJob& job);

// A chosen kind and its options as JSON: {name: adam, lr: 0.001}.
template <class Product>
OrderedJson chosen_json(const Chosen<Product>& chosen, const char* key = "name") {
  OrderedJson json = {{key, chosen.name}};
  for (const auto& setting : chosen.kind->settings) json[setting.key] = setting.value(chosen.options.get());
  return json;
}

// The map of options that a bare name stands for: an empty one in its place.
inline ConfigNode options_of(const ConfigNode& section) {
  return section.is_scalar() ? ConfigNode::parse("", section.where()) : section;
}

// Reads a bare name, or a map with a name and options; keys in `also` are not the kind's own.
template <class Product>
Chosen<Product> choose_item(const Kinds<Product>& kinds, const ConfigNode& item,
                            const std::vector<std::string>& also = {}, const std::string& fallback = "") {
  if (!item.is_scalar()) return kinds.choose(item, also, fallback);
  return kinds.choose_named(item.as_string(), item, options_of(item), also);
}

}  // namespace starling::train
