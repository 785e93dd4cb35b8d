#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "starling/base/result.h"
#include "starling/train/job/job_sections.h"

namespace starling::train {
namespace {

OrderedJson settings_ordered(const Settings& settings, const void* options) {
  OrderedJson json = OrderedJson::object();
  for (const auto& setting : settings) json[setting.key] = setting.value(options);
  return json;
}

template <class Product>
OrderedJson list_json(const std::vector<Chosen<Product>>& list) {
  OrderedJson json = OrderedJson::array();
  for (const auto& item : list) json.push_back(chosen_json(item));
  return json;
}

OrderedJson model_json(const ModelJob& job) {
  return job.layers ? OrderedJson{{"layers", node_json(*job.layers)}} : chosen_json(*job.net);
}

void add_all(OrderedJson& json, const OrderedJson& more) {
  for (const auto& [key, value] : more.items()) json[key] = value;
}

OrderedJson data_json(const DataJob& job) {
  OrderedJson json = chosen_json(job.source);
  add_all(json, settings_ordered(LoadJob::settings(), &job.load));
  json["augment"] = list_json(job.augment);
  json["transforms"] = list_json(job.transforms);
  return json;
}

OrderedJson optimizer_json(const OptimizerJob& job) {
  OrderedJson json = chosen_json(job.kind);
  json["groups"] = OrderedJson::array();
  for (const auto& group : job.groups) json["groups"].push_back(settings_ordered(optim::GroupRule::settings(), &group));
  return json;
}

OrderedJson train_json(const TrainJob& job) {
  OrderedJson json = settings_ordered(TrainJob::settings(), &job);
  json["objective"] = job.objective ? chosen_json(*job.objective) : OrderedJson();
  json["metrics"] = list_json(job.metrics);
  return json;
}

OrderedJson distribute_json(const DistributeJob& job) {
  OrderedJson json = {{"workers", job.workers}};
  add_all(json, chosen_json(job.strategy, kStrategyKey));
  add_all(json, settings_ordered(DistributeJob::settings(), &job));
  return json;
}

bool is_plain_key(const std::string& key) {
  return !key.empty() &&
         std::all_of(key.begin(), key.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// A value on one line. JSON is YAML, but YAML 1.1 reads 1e-08 as a string and 1.0e-08 as a number.
std::string yaml_text(const OrderedJson& value) {
  std::string text;
  if (value.is_object()) {
    for (const auto& [key, item] : value.items())
      text += (text.empty() ? "" : ", ") + (is_plain_key(key) ? key : OrderedJson(key).dump()) + ": " + yaml_text(item);
    return "{" + text + "}";
  }
  if (value.is_array()) {
    for (const auto& item : value) text += (text.empty() ? "" : ", ") + yaml_text(item);
    return "[" + text + "]";
  }
  text = value.dump();
  const auto power = text.find('e');
  if (value.is_number_float() && power != std::string::npos && text.find('.') == std::string::npos)
    text.insert(power, ".0");
  return text;
}

void write_block(const OrderedJson& map, std::string& yaml) {
  for (const auto& [key, value] : map.items()) {
    if (value.is_object() && !value.empty()) {
      yaml += key + ":\n";
      for (const auto& [inner, item] : value.items()) yaml += fmt::format("  {}: {}\n", inner, yaml_text(item));
    } else {
      yaml += fmt::format("{}: {}\n", key, yaml_text(value));
    }
  }
}

using Entries = std::vector<std::pair<std::string, std::string>>;

// Flattens to "section.key"; lists and maps within a section are single values.
Entries flat(const OrderedJson& job) {
  Entries all;
  for (const auto& [section, values] : job.items()) {
    if (!values.is_object()) all.emplace_back(section, values.dump());
    if (!values.is_object()) continue;
    for (const auto& [key, value] : values.items()) all.emplace_back(section + "." + key, value.dump());
  }
  return all;
}

// True for settings that do not affect the weights: file locations, length of the run, saving and monitoring.
bool is_free(const std::string& path, const Job& job) {
  static const std::set<std::string_view> always = {"data.folder",
                                                    "data.path",
                                                    "data.test",
                                                    "data.test_limit",
                                                    "data.eval_batch",
                                                    "data.workers",
                                                    "data.prefetch",
                                                    "train.folder",
                                                    "train.early_stop",
                                                    "train.non_finite",
                                                    "train.finite_every",
                                                    "train.rollbacks",
                                                    "train.keep",
                                                    "train.best",
                                                    "train.save_memory",
                                                    "train.memory_mb",
                                                    "train.checkpoint_every",
                                                    "train.resume",
                                                    "train.export",
                                                    "train.checkpoint_seconds",
                                                    "distribute.workers",
                                                    "distribute.servers",
                                                    "distribute.server_backups",
                                                    "distribute.threads",
                                                    "distribute.backend",
                                                    "distribute.all_reduce",
                                                    "distribute.check",
                                                    "distribute.hash_every",
                                                    "distribute.heartbeat",
                                                    "distribute.deadline",
                                                    "distribute.slow",
                                                    "distribute.mesh",
                                                    "distribute.layout",
                                                    "distribute.zero"};
  static const std::set<std::string_view> length = {"train.epochs", "train.steps"};
  static const std::set<std::string_view> watching = {"train.evaluate_every", "train.watch", "train.metrics",
                                                      "data.evaluate"};
  if (path.starts_with("monitor.")) return true;
  if (always.contains(path)) return true;
  if (length.contains(path)) return !job.schedule.kind || !depends_on_length(*job.schedule.kind->make());
  if (watching.contains(path)) return !job.schedule.kind || job.schedule.kind->make()->state().empty();
  return false;
}

bool is_open(const Job& job, const std::string& path) {
  const auto open = open_options(job.model);
  return std::any_of(open.begin(), open.end(), [&](const std::string& key) { return path == "model." + key; });
}

// Location of the deepest given value on the path, if any.
std::optional<std::string> given_at(const ConfigNode& top, const std::string& path) {
  const auto dot = path.find('.');
  const auto section = top.find(path.substr(0, dot));
  if (!section) return std::nullopt;
  if (dot == std::string::npos) return section->where();
  if (section->is_scalar()) {  // a bare name
    const std::string key = path.substr(dot + 1);
    return key == "name" || key == kStrategyKey ? std::optional(section->where()) : std::nullopt;
  }
  const auto value = section->find(path.substr(dot + 1));
  return value ? std::optional(value->where()) : std::nullopt;
}

}  // namespace

OrderedJson node_json(const ConfigNode& node) {
  if (node.is_list()) {
    OrderedJson list = OrderedJson::array();
    for (const auto& item : node.as_list()) list.push_back(node_json(item));
    return list;
  }
  if (node.is_map()) {
    OrderedJson map = OrderedJson::object();
    for (const auto& [key, value] : node.as_map()) map[key] = node_json(value);
    return map;
  }
  if (node.is_null()) return OrderedJson();
  if (const auto whole = attempt([&] { return node.as_int(); })) return *whole;
  if (const auto number = attempt([&] { return node.as_double(); })) return *number;
  if (const auto truth = attempt([&] { return node.as_bool(); })) return *truth;
  return node.as_string();
}

bool depends_on_length(const optim::Schedule& schedule) {
  constexpr std::int64_t kSteps = 1000;
  for (std::int64_t step = 0; step < kSteps; step += 7) {
    const auto at = [&](std::int64_t steps) {
      return schedule.factor({.step = step, .steps = steps, .steps_per_epoch = 100});
    };
    if (at(kSteps) != at(2 * kSteps)) return true;
  }
  return false;
}

OrderedJson job_json(const Job& job) {
  return {{"model", model_json(job.model)},
          {"data", data_json(job.data)},
          {"optimizer", optimizer_json(job.optimizer)},
          {"schedule", job.schedule.kind ? chosen_json(*job.schedule.kind) : OrderedJson()},
          {"pretrain", job.pretrain.kind ? chosen_json(*job.pretrain.kind) : OrderedJson()},
          {"train", train_json(job.train)},
          {"distribute", distribute_json(job.distribute)},
          {"monitor", settings_ordered(MonitorOptions::settings(), &job.monitor)}};
}

std::vector<std::string> open_options(const ModelJob& job) {
  static const std::set<std::string_view> known = {"classes", "vocabulary",        "tokens",       "inputs", "channels",
                                                   "image",   "target_vocabulary", "target_tokens"};
  std::vector<std::string> open;
  if (!job.net) return open;
  for (const auto& setting : job.net->kind->settings) {
    const bool given = std::find(job.given.begin(), job.given.end(), setting.key) != job.given.end();
    if (known.contains(setting.key) && !given) open.push_back(setting.key);
  }
  return open;
}

std::string to_yaml(const Job& job) {
  OrderedJson json = job_json(job);
  for (const auto& option : open_options(job.model)) json["model"].erase(option);
  std::string yaml;
  write_block(json, yaml);
  return yaml;
}

std::vector<JobValue> job_values(const Job& job, const ConfigNode& top) {
  std::vector<JobValue> values;
  for (auto& [path, value] : flat(job_json(job))) {
    const auto given = given_at(top, path);
    values.push_back({path, value, given ? *given : is_open(job, path) ? "default, or from the data" : "default"});
  }
  return values;
}

Entries job_identity(const Job& job) {
  Entries all = flat(job_json(job));
  std::erase_if(all, [&](const auto& entry) { return is_free(entry.first, job); });
  std::erase(all, Entries::value_type("distribute.codec", "\"none\""));  // as in runs from before there were codecs
  return all;
}

}  // namespace starling::train
