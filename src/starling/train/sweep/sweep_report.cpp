#include "starling/train/sweep/sweep_report.h"

#include <fmt/format.h>

#include <cmath>

#include "starling/train/monitor/json_log.h"
#include "starling/train/runs/text_table.h"

namespace starling::train {
namespace {

constexpr std::size_t kMostCurves = 14;  // more cannot be told apart

std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.5g}", value) : "-"; }

bool began(const TrialResult& trial) { return !trial.error.empty() || is_run_folder(trial.folder); }

std::string state_of(const TrialResult& trial) {
  if (!trial.error.empty()) return "failed";
  return trial.dropped ? "dropped" : std::string(to_string(trial.record.state));
}

}  // namespace

std::string sweep_table(const SweepResult& result, const std::string& metric) {
  TextTable table{.head = {"trial", "state"}};
  table.right = {false, false};
  if (!result.trials.empty()) {
    for (const auto& [path, value] : result.trials.front().trial.values) table.head.push_back(path);
  }
  table.right.resize(table.head.size(), false);
  for (const char* name : {"epochs", "loss", "seconds"}) table.head.emplace_back(name);
  table.head.push_back(metric);
  table.right.resize(table.head.size(), true);
  for (const auto& trial : result.trials) {
    if (!began(trial)) continue;
    std::vector<std::string> row{trial.folder.filename().string(), state_of(trial)};
    for (const auto& [path, value] : trial.trial.values)
      row.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    for (const double value : {trial.record.epochs, trial.record.loss, trial.record.seconds, trial.value})
      row.push_back(number(value));
    table.rows.push_back(std::move(row));
  }
  return to_text(table);
}

std::optional<Figure> sweep_figure(const SweepResult& result, const std::string& metric) {
  std::vector<NamedLog> logs;
  bool has_loss = false;
  for (const auto& trial : result.trials) {
    if (logs.size() == kMostCurves || !trial.error.empty()) continue;
    auto log = read_run_log(trial.folder);
    if (!log || log->find(metric) == nullptr) continue;
    has_loss = has_loss || log->find("loss") != nullptr;
    logs.push_back({label(trial.trial), std::move(*log)});
  }
  if (logs.empty()) return std::nullopt;
  std::vector<std::string> metrics{metric};
  if (has_loss) metrics.emplace_back("loss");
  std::vector<std::string> notes;  // a trial without a loss is no news here
  auto figure = attempt([&] {
    return make_figure(logs, {.metrics = metrics, .x = PlotX::epoch, .title = metric + " of the best trials"}, notes);
  });
  return figure ? std::optional(std::move(*figure)) : std::nullopt;
}

}  // namespace starling::train
