#include "starling/cli/terminal/fit_runs.h"

#include <algorithm>
#include <set>

namespace starling::cli {
namespace {

using train::RunTable;

constexpr std::size_t kFirst = 2;  // run and state always stay

std::size_t place_of(const RunTable& table, const std::string& name) {
  const auto found =
      std::find_if(table.columns.begin(), table.columns.end(), [&](const auto& column) { return column.name == name; });
  return static_cast<std::size_t>(found - table.columns.begin());
}

bool in_every_run(const RunTable& table, std::size_t column) {
  return std::none_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row[column].is_null(); });
}

std::size_t different_values(const RunTable& table, std::size_t column) {
  std::set<nlohmann::json> values;
  for (const auto& row : table.rows) values.insert(row[column]);
  return values.size();
}

// Names of columns, in the order in which they are taken out.
std::vector<std::string> order_of(const RunTable& table, bool chosen) {
  std::vector<std::string> order, last;
  const std::size_t settings = place_of(table, "epochs");  // settings stand before the column "epochs"
  for (std::size_t i = std::min(settings, table.columns.size()); i-- > kFirst;)
    (chosen || in_every_run(table, i) ? last : order).push_back(table.columns[i].name);
  for (const char* name : {"started", "seconds", "samples_per_s"}) order.emplace_back(name);
  for (std::size_t i = settings; i < table.columns.size(); ++i) {
    if (table.columns[i].name.ends_with("_loss")) order.push_back(table.columns[i].name);
  }
  if (chosen) {
    for (const char* name : {"steps", "epochs", "loss"}) order.emplace_back(name);
    for (std::size_t i = settings; i < table.columns.size(); ++i) {
      if (!in_every_run(table, i)) order.push_back(table.columns[i].name);  // metrics of other objectives
    }
    order.insert(order.end(), last.begin(), last.end());
    return order;
  }
  // Columns that differ in most runs stay longest.
  std::stable_sort(last.begin(), last.end(), [&](const auto& a, const auto& b) {
    return different_values(table, place_of(table, a)) < different_values(table, place_of(table, b));
  });
  order.insert(order.end(), last.begin(), last.end());
  return order;
}

std::size_t width_of(const RunTable& table) {
  const std::string text = to_text(table);
  return text.find('\n');
}

}  // namespace

std::vector<std::string> fit_runs(RunTable& table, std::size_t columns, bool chosen) {
  const RunTable whole = table;
  for (const auto& name : order_of(whole, chosen)) {
    if (columns == 0 || width_of(table) <= columns) break;
    const std::size_t at = place_of(table, name);
    if (at == table.columns.size()) continue;
    table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(at));
    for (auto& row : table.rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(at));
  }
  std::vector<std::string> left_out;
  for (const auto& column : whole.columns) {
    if (place_of(table, column.name) == table.columns.size()) left_out.push_back(column.name);
  }
  return left_out;
}

}  // namespace starling::cli
