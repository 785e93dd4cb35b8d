#pragma once

#include <string>
#include <vector>

#include "starling/train/job.h"

namespace starling {

// What the files of the job share: how a section is made of a chosen kind, a struct of settings and lists of kinds.

// Keys that a section has beside the options of what is chosen in it.
struct JobSection {
  Settings settings{};               // of its own struct
  std::vector<std::string> lists{};  // of kinds
};
JobSection data_section();
JobSection optimizer_section();
JobSection distribute_section();

inline constexpr const char* kDefaultSource = "fashion_mnist";
inline constexpr const char* kDefaultOptimizer = "sgd";
inline constexpr const char* kDefaultStrategy = "allreduce";
inline constexpr const char* kStrategyKey = "strategy";  // names the kind there, beside its options

std::vector<std::string> keys_of(const Settings& settings);

// A chosen kind and its options as JSON: {name: adam, lr: 0.001}.
template <class Product>
Json chosen_json(const Chosen<Product>& chosen, const char* key = "name") {
  Json json = {{key, chosen.name}};
  for (const auto& setting : chosen.kind->settings) json[setting.key] = setting.value(chosen.options.get());
  return json;
}

// A bare name, or a map with a name and options.
template <class Product>
Chosen<Product> choose_item(const Kinds<Product>& kinds, const ConfigNode& item) {
  if (!item.is_scalar()) return kinds.choose(item);
  return kinds.choose_named(item.as_string(), item, ConfigNode::parse("", item.where()));
}

}  // namespace starling
