#include <fmt/format.h>

#include "starling/nn/declared.h"
#include "starling/train/job/job_sections.h"
#include "starling/train/sweep/sweep_job.h"

namespace starling::train {
namespace {

OrderedJson list_of(const OrderedJson& items, const char* doc) {
  return {{"type", "array"}, {"items", items}, {"description", doc}, {"default", OrderedJson::array()}};
}

// Schema of a map per kind: its name, its options, and the section's own keys.
template <class Product>
OrderedJson one_of(const Kinds<Product>& kinds, const OrderedJson& beside, const std::string& fallback = "",
                   const char* key_of_name = "name") {
  OrderedJson alternatives = OrderedJson::array();
  for (const auto& [name, kind] : kinds.all()) {
    const nlohmann::json own = settings_schema(kind.settings, kind.defaults.get());
    OrderedJson properties = {{key_of_name, {{"const", name}}}};
    for (const auto& setting : kind.settings) properties[setting.key] = own.at("properties").at(setting.key);
    for (const auto& [key, value] : beside.items()) properties[key] = value;
    OrderedJson one = {{"type", "object"}, {"description", kind.doc}, {"properties", properties}};
    one["additionalProperties"] = false;
    OrderedJson required = OrderedJson::array();
    if (name != fallback) required.push_back(key_of_name);
    if (own.contains("required")) {
      for (const auto& key : own.at("required")) required.push_back(key.get<std::string>());
    }
    if (!required.empty()) one["required"] = required;
    alternatives.push_back(std::move(one));
  }
  return {{"oneOf", alternatives}};
}

// Adds to a schema of such maps the bare names of those kinds that need no option.
template <class Product>
OrderedJson or_name(OrderedJson schema, const Kinds<Product>& kinds) {
  OrderedJson names = OrderedJson::array();
  for (const auto& [name, kind] : kinds.all()) {
    const auto own = settings_schema(kind.settings, kind.defaults.get());
    if (!own.contains("required")) names.push_back(name);
  }
  schema["oneOf"].insert(schema["oneOf"].begin(), OrderedJson{{"enum", names}});
  return schema;
}

template <class Product>
OrderedJson item_of(const Kinds<Product>& kinds) {
  return or_name(one_of(kinds, OrderedJson::object()), kinds);
}

// Schema of such a map, or null, which written jobs have if nothing was chosen.
OrderedJson or_null(OrderedJson schema) {
  schema["oneOf"].push_back(OrderedJson{{"type", "null"}});
  return schema;
}

OrderedJson model_schema() {
  OrderedJson schema = item_of(zoo::nets());
  schema["oneOf"].push_back({{"type", "object"},
                             {"description", "a network declared as a list of layers"},
                             {"properties", {{"layers", {{"$ref", "#/$defs/layers"}}}}},
                             {"additionalProperties", false},
                             {"required", OrderedJson::array({"layers"})}});
  return schema;
}

template <class T>
OrderedJson ordered_schema() {
  const T defaults{};
  const Settings settings = T::settings();
  const nlohmann::json plain = settings_schema(settings, &defaults);
  OrderedJson properties = OrderedJson::object();
  for (const auto& setting : settings) properties[setting.key] = plain.at("properties").at(setting.key);
  OrderedJson schema = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (plain.contains("required")) schema["required"] = plain.at("required");
  return schema;
}

OrderedJson data_schema() {
  OrderedJson beside = ordered_schema<LoadJob>()["properties"];
  const OrderedJson steps = item_of(transform_kinds());
  beside["augment"] = list_of(steps, "what is done to training samples only, before the transforms");
  beside["transforms"] = list_of(steps, "what is done to all samples, in order");
  return or_name(one_of(data::source_kinds(), beside, kDefaultSource), data::source_kinds());
}

OrderedJson optimizer_schema() {
  const OrderedJson groups = list_of(ordered_schema<optim::GroupRule>(), "parameters that differ, by their names");
  return or_name(one_of(optim::optimizer_kinds(), {{"groups", groups}}, kDefaultOptimizer), optim::optimizer_kinds());
}

OrderedJson train_schema() {
  OrderedJson schema = ordered_schema<TrainJob>();
  OrderedJson objective = or_null(item_of(objective_kinds()));
  objective["description"] = "what the network is trained for; not given: what it is meant for";
  schema["properties"]["objective"] = objective;
  schema["properties"]["metrics"] =
      list_of(item_of(metric_kinds()), "what evaluations tell; none: those of the objective");
  return schema;
}

OrderedJson sweep_schema() {
  OrderedJson schema = ordered_schema<SweepJob>();
  const OrderedJson range = {{"type", "object"},
                             {"properties",
                              {{"min", {{"type", "number"}}},
                               {"max", {{"type", "number"}}},
                               {"log", {{"type", "boolean"}, {"default", false}}}}},
                             {"additionalProperties", false},
                             {"required", OrderedJson::array({"min", "max"})}};
  schema["properties"]["settings"] = {
      {"type", "object"},
      {"description", "what varies, by path, as optimizer.lr: a list of values, or a range"},
      {"additionalProperties", {{"oneOf", OrderedJson::array({{{"type", "array"}, {"minItems", 1}}, range})}}}};
  return schema;
}

}  // namespace

OrderedJson job_schema() {
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "A job of starling train"},
          {"type", "object"},
          {"properties",
           {{"model", model_schema()},
            {"data", data_schema()},
            {"optimizer", optimizer_schema()},
            {"schedule", or_null(item_of(optim::schedule_kinds()))},
            {"pretrain", or_null(item_of(zoo::pretrain_kinds()))},
            {"train", train_schema()},
            {"distribute", or_name(one_of(dist::strategy_kinds(), ordered_schema<DistributeJob>()["properties"],
                                          kDefaultStrategy, kStrategyKey),
                                   dist::strategy_kinds())},
            {"monitor", ordered_schema<MonitorOptions>()},
            {"sweep", sweep_schema()}}},
          {"additionalProperties", false},
          {"required", OrderedJson::array({"model"})},
          {"$defs", nn::layers_schema_defs()}};
}

}  // namespace starling::train
