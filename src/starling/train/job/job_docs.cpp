#include <fmt/format.h>

#include "starling/train/job/job_sections.h"
#include "starling/train/sweep/sweep_job.h"

namespace starling::train {
namespace {

using Plain = nlohmann::json;

std::string number_text(const Plain& number) { return number.dump(); }

// Short description of the allowed values.
std::string type_text(const Plain& schema) {
  if (schema.contains("enum")) {
    std::string names;
    for (const auto& name : schema.at("enum")) names += (names.empty() ? "" : ", ") + name.get<std::string>();
    return names;
  }
  if (schema.contains("anyOf")) return type_text(schema.at("anyOf").front());
  const std::string type = schema.value("type", "value");
  if (type == "array") return "list of " + type_text(schema.at("items"));
  if (type == "object") return "map";
  if (type == "boolean") return "true, false";
  if (type == "string") return "text";
  std::string text = type == "integer" ? "whole number" : "number";
  if (schema.contains("minimum") && schema.contains("maximum"))
    return text + fmt::format(", {} to {}", number_text(schema.at("minimum")), number_text(schema.at("maximum")));
  if (schema.contains("minimum")) text += fmt::format(" ≥ {}", number_text(schema.at("minimum")));
  if (schema.contains("maximum")) text += fmt::format(" ≤ {}", number_text(schema.at("maximum")));
  return text;
}

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

void write_rows(const std::string& prefix, const Settings& settings, const void* defaults, std::string& out) {
  for (const auto& setting : settings) {
    const Plain value = setting.value(defaults);
    const std::string shown = setting.required ? "must be given" : value.is_null() ? "none" : "`" + value.dump() + "`";
    out += fmt::format("| `{}{}` | {} | {} | {} |\n", prefix, setting.key, cell(type_text(setting.schema)), cell(shown),
                       cell(setting.doc));
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

template <class Product>
std::string kinds_table(const Kinds<Product>& kinds) {
  std::string out = "| name | key | may be | default | what it is |\n|---|---|---|---|---|\n";
  for (const auto& [name, kind] : kinds.all()) {
    out += fmt::format("| **{}** | | | | {} |\n", name, cell(kind.doc));
    for (const auto& setting : kind.settings) {
      std::string row;
      write_rows("", {setting}, kind.defaults.get(), row);
      out += "| " + row;
    }
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
      "([declared nets](declared_nets.md)).\n\n" +
      kinds_table(zoo::nets());
  out += "## data\n" + table<LoadJob>(row("augment", "list", "transforms of training samples only, done first") +
                                      row("transforms", "list", "transforms of all samples, in order"));
  out += fmt::format("A source by `name` ({} when none is given), with options of its own:\n\n", kDefaultSource) +
         kinds_table(data::source_kinds());
  out += "Transforms, as `{name: …, options}` or a bare name:\n\n" + kinds_table(transform_kinds());
  out += "## optimizer\n" + std::string(kHead) + row("groups", "list", "parameters that differ, by their names") + "\n";
  out += "Each of the groups:\n\n" + table<optim::GroupRule>();
  out += fmt::format("A kind by `name` ({} when none is given), with options of its own:\n\n", kDefaultOptimizer) +
         kinds_table(optim::optimizer_kinds());
  out += "## schedule\nOf the learning rate, as a share of the optimizer's; none: it stays.\n\n" +
         kinds_table(optim::schedule_kinds());
  out += "## pretrain\nOf hidden layers, before labels are seen; none: training begins with random weights.\n\n" +
         kinds_table(zoo::pretrain_kinds());
  out += "## train\n" + table<TrainJob>(row("objective", "name or map", "what the network is trained for") +
                                        row("metrics", "list", "what evaluations tell"));
  out += "`early_stop`:\n\n" + table<EarlyStopJob>() + "`average`:\n\n" + table<AverageJob>();
  out += "Objectives:\n\n" + kinds_table(objective_kinds()) + "Metrics:\n\n" + kinds_table(metric_kinds());
  out += "## distribute\n" + table<DistributeJob>() + "`topology`:\n\n" + table<dist::Topology>();
  out += fmt::format(
             "A strategy by `{}` ({} when none is given), with options of its own ([training on several workers]"
             "(distributed.md)):\n\n",
             kStrategyKey, kDefaultStrategy) +
         kinds_table(dist::strategy_kinds());
  out += "## monitor\n" + table<MonitorOptions>();
  out += "## sweep\nFor `starling sweep` ([runs](runs.md#sweeps)); `starling train` trains the job without it.\n\n" +
         table<SweepJob>(
             row("settings", "map", "what varies, by path: a list of values, or `{min: …, max: …, log: true}`"));
  return out;
}

}  // namespace starling::train
