#include "starling/train/job/job_docs.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "starling/base/text.h"
#include "starling/dist/codec/codec_kinds.h"
#include "starling/train/job/job_sections.h"
#include "starling/train/sweep/sweep_job.h"

namespace starling::train {

std::string allowed_values(const nlohmann::json& schema) {
  if (schema.contains("enum")) {
    std::string names;
    for (const auto& name : schema.at("enum")) names += (names.empty() ? "" : ", ") + name.get<std::string>();
    return names;
  }
  if (schema.contains("$ref")) return "list of layers";  // the only part that others refer to
  if (schema.contains("anyOf")) return allowed_values(schema.at("anyOf").front());
  const std::string type = schema.value("type", "value");
  if (type == "array") return "list of " + allowed_values(schema.at("items"));
  if (type == "object") return "map";
  if (type == "boolean") return "true, false";
  if (type == "string") return "text";
  std::string text = type == "integer" ? "whole number" : "number";
  if (schema.contains("minimum") && schema.contains("maximum"))
    return text + fmt::format(", {} to {}", schema.at("minimum").dump(), schema.at("maximum").dump());
  if (schema.contains("minimum")) text += fmt::format(" ≥ {}", schema.at("minimum").dump());
  if (schema.contains("maximum")) text += fmt::format(" ≤ {}", schema.at("maximum").dump());
  return text;
}

namespace {

using Plain = nlohmann::json;

void write_rows(const std::string& prefix, const Settings& settings, const void* defaults, std::string& out) {
  for (const auto& setting : settings) {
    const Plain value = setting.value(defaults);
    const std::string shown = setting.required ? "must be given" : value.is_null() ? "none" : "`" + value.dump() + "`";
    out += fmt::format("| `{}{}` | {} | {} | {} |\n", prefix, setting.key,
                       markdown_cell(allowed_values(setting.schema)), markdown_cell(shown), markdown_cell(setting.doc));
  }
}

constexpr const char* kHead = "| key | may be | default | what it is |\n|---|---|---|---|\n";

template <class T>
std::string table(const std::string& extra = "") {
  const T defaults{};
  std::string out = kHead;
  write_rows("", T::settings(), &defaults, out);
  return out + extra + "\n";
}

// Options that at least this many kinds share, word for word, are listed once for all of them.
constexpr int kShared = 3;

template <class Product>
std::vector<std::string> rows_of(const Kind<Product>& kind) {
  std::vector<std::string> rows;
  for (const auto& setting : kind.settings) write_rows("", {setting}, kind.defaults.get(), rows.emplace_back());
  return rows;
}

// Shared rows by key: the most frequent one where kinds differ, so that a key means one thing.
template <class Product>
std::map<std::string, std::string> shared_rows(const Kinds<Product>& kinds) {
  std::map<std::string, std::map<std::string, int>> users;  // by key and row
  for (const auto& [name, kind] : kinds.all()) {
    const auto rows = rows_of(kind);
    for (std::size_t i = 0; i < rows.size(); ++i) ++users[kind.settings[i].key][rows[i]];
  }
  std::map<std::string, std::string> shared;
  for (const auto& [key, rows] : users) {
    int most = kShared - 1;
    for (const auto& [row, count] : rows) {
      if (count <= most) continue;
      most = count;
      shared[key] = row;
    }
  }
  return shared;
}

template <class Product>
std::string kinds_table(const Kinds<Product>& kinds) {
  const auto shared = shared_rows(kinds);
  std::string own = "| name | key | may be | default | what it is |\n|---|---|---|---|---|\n";
  for (const auto& [name, kind] : kinds.all()) {
    std::string also;
    std::string rows;
    const auto all = rows_of(kind);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string& key = kind.settings[i].key;
      const auto found = shared.find(key);
      if (found == shared.end() || found->second != all[i]) {
        rows += "| " + all[i];
      } else {
        also += (also.empty() ? "" : ", ") + fmt::format("`{}`", key);
      }
    }
    if (!also.empty()) also = fmt::format("{}shared options: {}", kind.doc.ends_with('.') ? " " : "; ", also);
    own += fmt::format("| **{}** | | | | {}{} |\n", name, markdown_cell(kind.doc), also) + rows;
  }
  if (shared.empty()) return own + "\n";
  own += std::string("\nShared options:\n\n") + kHead;
  for (const auto& [key, row] : shared) own += row;
  return own + "\n";
}

// Networks by name, their options by key alone: `starling zoo NAME` has the rest.
std::string nets_table() {
  std::string out = "| name | what it is | options |\n|---|---|---|\n";
  for (const auto& [name, kind] : zoo::nets().all()) {
    std::string keys;
    for (const auto& setting : kind.settings) keys += (keys.empty() ? "" : ", ") + fmt::format("`{}`", setting.key);
    out += fmt::format("| `{}` | {} | {} |\n", name, markdown_cell(kind.doc), keys);
  }
  return out + "\n";
}

std::string row(const char* key, const char* type, const char* doc) {
  return fmt::format("| `{}` | {} | none | {} |\n", key, type, doc);
}

}  // namespace

std::string job_docs() {
  std::string out;
  out +=
      "## model\nA network by `name`, with options of its own, or `layers`, a list of layers with their wiring "
      "([declared nets](declared_nets.md)).\n"
      "`starling zoo lenet` shows the options of a network with their ranges and defaults.\n\n" +
      nets_table();
  out += "## data\n" + table<LoadJob>(row("augment", "list", "transforms of training samples only, done first") +
                                      row("transforms", "list", "transforms of all samples, in order"));
  out += fmt::format("### Sources\nA source by `name` ({} when none is given), with options of its own:\n\n",
                     kDefaultSource) +
         kinds_table(data::source_kinds());
  out += "### Transforms\nFor `augment` and `transforms`, as `{name: …, options}` or a bare name:\n\n" +
         kinds_table(transform_kinds());
  out += "## optimizer\n" + std::string(kHead) + row("groups", "list", "parameters that differ, by their names") + "\n";
  out += "Each of the groups:\n\n" + table<optim::GroupRule>();
  out += fmt::format("### Optimizers\nA kind by `name` ({} when none is given), with options of its own:\n\n",
                     kDefaultOptimizer) +
         kinds_table(optim::optimizer_kinds());
  out += "## schedule\nOf the learning rate, as a share of the optimizer's; none: it stays.\n\n" +
         kinds_table(optim::schedule_kinds());
  out += "## pretrain\nOf hidden layers, before labels are seen; none: training begins with random weights.\n\n" +
         kinds_table(zoo::pretrain_kinds());
  out += "## train\n" + table<TrainJob>(row("objective", "name or map", "what the network is trained for") +
                                        row("metrics", "list", "what evaluations tell"));
  out += "`early_stop`:\n\n" + table<EarlyStopJob>() + "`average`:\n\n" + table<AverageJob>();
  out += "### Objectives\n\n" + kinds_table(objective_kinds()) + "### Metrics\n\n" + kinds_table(metric_kinds());
  out += "## distribute\n" + table<DistributeJob>() + "`topology`:\n\n" + table<dist::Topology>();
  out += fmt::format(
             "### Strategies\nA strategy by `{}` ({} when none is given), with options of its own ([training on "
             "several workers]"
             "(distributed.md)):\n\n",
             kStrategyKey, kDefaultStrategy) +
         kinds_table(dist::strategy_kinds());
  out +=
      "### Codecs\nFor the option `codec` of a strategy, as `{name: …, options}` or a bare name "
      "([codecs](codecs.md)):\n\n" +
      kinds_table(dist::codec_kinds());
  out += "## monitor\n" + table<MonitorOptions>();
  out += "## sweep\nFor `starling sweep` ([runs](runs.md#sweeps)); `starling train` trains the job without it.\n\n" +
         table<SweepJob>(
             row("settings", "map", "what varies, by path: a list of values, or `{min: …, max: …, log: true}`"));
  return out;
}

}  // namespace starling::train
