#include "starling/train/run/run_state.h"

#include <cmath>
#include <limits>

namespace starling {
namespace {

// JSON has no NaN: a metric without samples is null.
nlohmann::json metrics_json(const std::map<std::string, double>& metrics) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : metrics)
    json[name] = std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
  return json;
}

std::map<std::string, double> read_metrics(const nlohmann::json& json) {
  std::map<std::string, double> metrics;
  for (const auto& [name, value] : json.items())
    metrics[name] = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  return metrics;
}

}  // namespace

nlohmann::json to_json(const RunState& state) {
  return {{"step", state.step},
          {"epoch", state.position.epoch},
          {"sample", state.position.sample},
          {"samples", state.samples},
          {"seconds", state.seconds},
          {"wait_seconds", state.wait_seconds},
          {"epoch_loss", state.epoch_loss},
          {"epoch_weight", state.epoch_weight},
          {"skipped", state.skipped},
          {"base_lr", state.base_lr},
          {"metrics", metrics_json(state.metrics)},
          {"evaluated_step", state.evaluated_step},
          {"owed", static_cast<int>(state.owed)}};
}

RunState run_state(const nlohmann::json& json) {
  RunState state;
  state.step = json.at("step").get<std::int64_t>();
  state.position = {json.at("epoch").get<std::int64_t>(), json.at("sample").get<std::int64_t>()};
  state.samples = json.at("samples").get<std::int64_t>();
  state.seconds = json.at("seconds").get<double>();
  state.wait_seconds = json.at("wait_seconds").get<double>();
  state.epoch_loss = json.at("epoch_loss").get<double>();
  state.epoch_weight = json.at("epoch_weight").get<double>();
  state.skipped = json.at("skipped").get<std::int64_t>();
  state.base_lr = json.at("base_lr").get<double>();
  state.metrics = read_metrics(json.at("metrics"));
  state.evaluated_step = json.at("evaluated_step").get<std::int64_t>();
  state.owed = static_cast<Owed>(json.value("owed", 0));
  return state;
}

}  // namespace starling
