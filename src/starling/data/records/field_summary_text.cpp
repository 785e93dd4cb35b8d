#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "starling/data/records/field_summary.h"

namespace starling::data {
namespace {

constexpr std::size_t kMostLines = 40;  // limit of listed values
constexpr int kBar = 30;

std::string number(double value) {
  if (std::isnan(value)) return "-";
  return std::abs(value) < 1e7 && value == std::floor(value) ? fmt::format("{:.0f}", value)
                                                             : fmt::format("{:.5g}", value);
}

std::string percent(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

using Row = std::vector<std::string>;

Row row_of(const std::string& name, const std::string& type, std::int64_t samples, const FieldMoments& m) {
  const bool any = m.count > 0;
  const std::int64_t values = m.count + m.nans + m.infinities;
  return {name,
          type,
          samples >= 0 ? fmt::format("{}", samples) : "",
          any ? number(m.min) : "-",
          any ? number(m.max) : "-",
          any ? number(m.mean) : "-",
          number(m.std()),
          percent(m.zeros, values),
          m.nans > 0 ? fmt::format("{}", m.nans) : "",
          m.infinities > 0 ? fmt::format("{}", m.infinities) : ""};
}

// Empty columns are left out; names and types are left-aligned, numbers right-aligned.
std::string table(std::vector<Row> rows) {
  std::string text;
  std::vector<std::size_t> widths(rows.front().size());
  for (std::size_t c = 0; c < widths.size(); ++c) {
    bool used = false;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      widths[c] = std::max(widths[c], rows[r][c].size());
      used = used || (r > 0 && !rows[r][c].empty());
    }
    if (!used) widths[c] = 0;
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (widths[c] == 0) continue;
      line += c < 2 ? fmt::format("{:<{}}  ", row[c], widths[c]) : fmt::format("{:>{}}  ", row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string values_text(const NamedSummary& field) {
  const auto& values = field.field.values;
  if (values.empty()) return "";
  std::int64_t most = 1;
  for (const auto& [value, count] : values) most = std::max(most, count);
  std::vector<Row> rows;
  std::string text = fmt::format("\n{}: {} different values\n", field.name, values.size());
  for (const auto& [value, count] : values) {
    if (rows.size() == kMostLines) break;
    const bool named = value >= 0 && static_cast<std::size_t>(value) < field.value_names.size();
    const auto bar = static_cast<int>(std::lround(static_cast<double>(count) * kBar / static_cast<double>(most)));
    text += fmt::format("  {:>6} {:<16} {:>9} {:>8}  {}\n", value,
                        named ? field.value_names[static_cast<std::size_t>(value)] : "", count,
                        percent(count, field.field.samples), std::string(static_cast<std::size_t>(bar), '#'));
    rows.emplace_back();
  }
  if (values.size() > kMostLines) text += fmt::format("  and {} more\n", values.size() - kMostLines);
  return text;
}

}  // namespace

std::string to_text(const std::vector<NamedSummary>& fields) {
  std::vector<Row> rows = {{"field", "type", "samples", "min", "max", "mean", "std", "zeros", "nan", "inf"}};
  for (const auto& [name, field, value_names] : fields) {
    rows.push_back(row_of(name, to_string(field.type), field.samples, field.all));
    for (std::size_t c = 0; c < field.channels.size(); ++c)
      rows.push_back(row_of(fmt::format("  channel {}", c), "", -1, field.channels[c]));
  }
  std::string text = table(std::move(rows));
  for (const auto& field : fields) text += values_text(field);
  return text;
}

}  // namespace starling::data
