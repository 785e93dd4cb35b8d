#include "starling/train/runs/run_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "starling/train/runs/run_filter.h"
#include "starling/train/runs/text_table.h"
#include "starling/train/runs/times.h"

namespace starling::train {
namespace {

using nlohmann::json;
using Kind = RunColumn::Kind;

constexpr double kLongNumber = 1e8;  // from here on numbers are shown as 1.234e+08

json number_or_null(double value) { return std::isfinite(value) ? json(value) : json(); }

json whole_or_null(double value) { return std::isfinite(value) ? json(static_cast<std::int64_t>(value)) : json(); }

std::string name_of(const RunRecord& run, const std::filesystem::path& root) {
  const auto below = run.folder.lexically_normal().lexically_relative(root.lexically_normal());
  return below.empty() || below == "." ? run.folder.string() : below.string();
}

// All values of a run by name: settings, metrics and what every run has.
struct Values {
  std::map<std::string, json> all;
};

Values values_of(const RunRecord& run, const std::filesystem::path& root) {
  Values values;
  for (const auto& [path, value] : run.settings) values.all[path] = value;
  for (const auto& [name, value] : run.metrics) values.all[name] = number_or_null(value);
  values.all["run"] = name_of(run, root);
  values.all["state"] = std::string(to_string(run.state));
  values.all["epochs"] = number_or_null(run.epochs);
  values.all["steps"] = whole_or_null(run.steps);
  values.all["loss"] = number_or_null(run.loss);
  values.all["samples_per_s"] = number_or_null(run.samples_per_s);
  values.all["seconds"] = number_or_null(run.seconds);
  values.all["started"] = number_or_null(run.started);
  values.all["ended"] = number_or_null(run.ended);
  if (!run.failure.empty()) values.all["failure"] = run.failure;
  return values;
}

// Settings with different values. Of those that only some runs have, since they belong to a kind that the others do not
// use, the ones in which these differ: the rest follows from the kind. Where a run lies and whether it was resumed says
// nothing about it.
struct Differing {
  std::vector<std::string> shown;
  std::vector<std::string> of_some;  // left out
};
Differing differing(const std::vector<RunRecord>& runs) {
  std::map<std::string, std::set<json>> values;
  std::map<std::string, std::size_t> counts;
  for (const auto& run : runs) {
    for (const auto& [path, value] : run.settings) {
      values[path].insert(value);
      ++counts[path];
    }
  }
  Differing found;
  for (const auto& [path, all] : values) {
    if (path == "train.folder" || path == "train.resume") continue;
    if (all.size() > 1) {
      found.shown.push_back(path);
    } else if (counts[path] < runs.size()) {
      found.of_some.push_back(path);
    }
  }
  return found;
}

std::vector<std::string> known_names(const std::vector<Values>& runs) {
  std::set<std::string> names;
  for (const auto& run : runs) {
    for (const auto& [name, value] : run.all) names.insert(name);
  }
  return {names.begin(), names.end()};
}

// `with_failures`: also why runs failed, which are long texts.
std::vector<RunColumn> columns_of(const std::vector<RunRecord>& runs, const std::vector<std::string>& settings,
                                  bool with_failures) {
  std::vector<RunColumn> columns{{"run"}, {"state"}};
  for (const auto& path : settings) columns.push_back({path});
  columns.push_back({"epochs", Kind::number});
  columns.push_back({"steps", Kind::number});
  columns.push_back({"loss", Kind::number});
  std::set<std::string> metrics;
  for (const auto& run : runs) {
    for (const auto& [name, value] : run.metrics) metrics.insert(name);
  }
  for (const auto& name : metrics) columns.push_back({name, Kind::number});
  columns.push_back({"samples_per_s", Kind::number});
  columns.push_back({"seconds", Kind::duration});
  columns.push_back({"started", Kind::moment});
  const bool failed = std::any_of(runs.begin(), runs.end(), [](const auto& run) { return !run.failure.empty(); });
  if (failed && with_failures) columns.push_back({"failure"});
  return columns;
}

// Order of two values: numbers before texts; what is not known comes last whichever way is sorted.
bool comes_before(const json& a, const json& b, bool descending) {
  if (a.is_null() || b.is_null()) return !a.is_null() && b.is_null();
  if (a.is_number() != b.is_number()) return a.is_number() != descending;
  return descending ? b < a : a < b;
}

std::string shown(const json& value, Kind kind) {
  if (value.is_null()) return "-";
  if (kind == Kind::duration) return duration_text(value.get<double>());
  if (kind == Kind::moment) return moment_text(value.get<double>());
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (kind != Kind::number) return fmt::format("{}", number);
    const bool whole = std::abs(number) >= 1000 && std::abs(number) < kLongNumber;
    return whole ? fmt::format("{:.0f}", number) : fmt::format("{:.4g}", number);
  }
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Settings are headed by their last word where no other column has the same and it is no mere "name".
std::vector<std::string> headings(const std::vector<RunColumn>& columns) {
  const auto last_word = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
  std::multiset<std::string> words;
  for (const auto& column : columns) words.insert(last_word(column.name));
  std::vector<std::string> names;
  for (const auto& column : columns) {
    const std::string word = last_word(column.name);
    names.push_back(words.count(word) == 1 && word != "name" ? word : column.name);
  }
  return names;
}

std::string csv_cell(const json& value) {
  if (value.is_null()) return "";
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted;
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return "\"" + quoted + "\"";
}

}  // namespace

RunTable make_run_table(const std::vector<RunRecord>& runs, const std::filesystem::path& root,
                        const RunTableOptions& options) {
  std::vector<Values> values;
  for (const auto& run : runs) values.push_back(values_of(run, root));
  const auto known = known_names(values);
  const auto holds = [&](const Values& run, const RunFilter& filter) {
    const auto at = run.all.find(known_name(filter.name(), known, "a filter on a column or setting"));
    return at != run.all.end() && filter.holds(at->second);
  };
  const std::vector<RunFilter> filters(options.filters.begin(), options.filters.end());
  std::vector<RunRecord> kept;
  std::vector<Values> kept_values;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!std::all_of(filters.begin(), filters.end(), [&](const auto& one) { return holds(values[i], one); })) continue;
    kept.push_back(runs[i]);
    kept_values.push_back(values[i]);
  }
  RunTable table;
  std::vector<std::string> settings;
  for (const auto& name : options.settings) settings.push_back(known_name(name, known, "a setting"));
  if (options.settings.empty() && !kept.empty()) {
    Differing found = differing(kept);
    settings = std::move(found.shown);
    if (options.all_settings) {
      settings.insert(settings.end(), found.of_some.begin(), found.of_some.end());
      std::sort(settings.begin(), settings.end());
    } else {
      table.of_some = std::move(found.of_some);
    }
  }
  table.columns = columns_of(kept, settings, options.all_settings);
  for (const auto& run : kept) {
    if (!run.failure.empty()) table.failures.emplace_back(name_of(run, root), run.failure);
  }
  const auto cell = [](const Values& run, const std::string& name) {
    const auto at = run.all.find(name);
    return at == run.all.end() ? json() : at->second;
  };
  if (!options.sort.empty()) {
    const std::string by = known_name(options.sort, known, "a column or setting to sort by");
    std::stable_sort(kept_values.begin(), kept_values.end(), [&](const Values& a, const Values& b) {
      return comes_before(cell(a, by), cell(b, by), options.descending);
    });
  }
  for (const auto& run : kept_values) {
    std::vector<json> row;
    for (const auto& column : table.columns) row.push_back(cell(run, column.name));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string to_text(const RunTable& table) {
  TextTable text;
  text.head = headings(table.columns);
  for (const auto& column : table.columns) text.right.push_back(column.kind != Kind::text);
  for (const auto& row : table.rows) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < row.size(); ++i) cells.push_back(shown(row[i], table.columns[i].kind));
    text.rows.push_back(std::move(cells));
  }
  return to_text(text);
}

std::string to_csv(const RunTable& table) {
  std::string text;
  for (const auto& column : table.columns) text += (text.empty() ? "" : ",") + csv_cell(column.name);
  text += "\n";
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + csv_cell(row[i]);
    text += "\n";
  }
  return text;
}

nlohmann::ordered_json to_json(const RunTable& table) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& row : table.rows) {
    nlohmann::ordered_json one = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < row.size(); ++i) one[table.columns[i].name] = row[i];
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace starling::train
