#include "starling/train/sweep/sweep_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

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

// Varied settings by the last words of their paths, where these differ.
std::vector<std::string> headings(const Trial& trial) {
  const auto last_word = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  std::multiset<std::string> words;
  for (const auto& [path, value] : trial.values) words.insert(last_word(path));
  std::vector<std::string> names;
  for (const auto& [path, value] : trial.values) {
    const std::string word = last_word(path);
    names.push_back(words.count(word) == 1 && word != "name" ? word : path);
  }
  return names;
}

std::size_t widest_line(const TextTable& table) {
  const std::string text = to_text(table);
  std::size_t widest = 0;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    widest = std::max(widest, end - begin);
  return widest;
}

void erase_column(TextTable& table, std::size_t column) {
  const auto at = static_cast<std::ptrdiff_t>(column);
  table.head.erase(table.head.begin() + at);
  table.right.erase(table.right.begin() + at);
  for (auto& row : table.rows) row.erase(row.begin() + at);
}

}  // namespace

std::string sweep_table(const SweepResult& result, const std::string& metric, std::size_t columns) {
  TextTable table{.head = {"trial", "state"}};
  table.right = {false, false};
  if (!result.trials.empty()) {
    for (auto& name : headings(result.trials.front().trial)) table.head.push_back(std::move(name));
  }
  table.right.resize(table.head.size(), false);
  const std::size_t settings = table.head.size();
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
  // The column least asked for gives way first; `starling runs` has it.
  for (std::size_t least = settings + 3; columns > 0 && least-- > settings && widest_line(table) > columns;)
    erase_column(table, least);
  return to_text(table);
}

std::string best_text(const SweepResult& result, const std::string& metric) {
  constexpr std::size_t kMostNamed = 4;
  if (result.trials.empty() || !std::isfinite(result.trials.front().value)) return "";
  const TrialResult& first = result.trials.front();
  std::vector<std::string> equal;
  for (const auto& trial : result.trials) {
    if (!trial.error.empty() || trial.dropped || trial.value != first.value) break;  // trials without a value come last
    equal.push_back(fmt::format("{} ({})", trial.folder.filename().string(), label(trial.trial)));
  }
  if (equal.empty()) return "";
  if (equal.size() == 1) return fmt::format("best: {}, {} {}", equal.front(), metric, number(first.value));
  const std::size_t all = equal.size();
  equal.resize(std::min(all, kMostNamed));
  return fmt::format("best: {} trials are equal in {} {}: {}{}; another --metric, as loss, may tell them apart", all,
                     metric, number(first.value), fmt::join(equal, ", "), all > kMostNamed ? ", …" : "");
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
