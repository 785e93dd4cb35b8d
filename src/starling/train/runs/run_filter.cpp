#include "starling/train/runs/run_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/base/file/glob.h"
#include "starling/base/text.h"

namespace starling::train {
namespace {

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

bool compares(const std::string& op, double a, double b) {
  if (op == "<") return a < b;
  if (op == ">") return a > b;
  if (op == "<=") return a <= b;
  if (op == ">=") return a >= b;
  return (a == b) == (op == "=");
}

[[noreturn]] void refuse_comparison(const std::string& given, const std::string& text) {
  const std::string meant = given == "=>" ? ">=" : given == "=<" ? "<=" : given == "<>" || given == "=!" ? "!=" : "";
  fail("[runs] expected one of the comparisons (=, !=, <, <=, >, >=) in a filter, got '{}' in '{}'{}", given, text,
       meant.empty() ? "" : fmt::format(" (did you mean '{}'?)", meant));
}

}  // namespace

RunFilter::RunFilter(const std::string& text) {
  const auto at = text.find_first_of("<>=!");
  const bool found = at != std::string::npos && at > 0;
  const std::size_t size = found && at + 1 < text.size() && text[at + 1] == '=' ? 2 : 1;
  op_ = found ? text.substr(at, size) : "";
  if (op_ == "==") op_ = "=";
  check(found && op_ != "!",
        "[runs] expected a filter of a name, a comparison (=, !=, <, <=, >, >=) and a value, as 'lr>0.01', got '{}'",
        text);
  name_ = trimmed(text.substr(0, at));
  wanted_ = trimmed(text.substr(at + size));
  const auto rest = std::min(wanted_.find_first_not_of("<>=!"), wanted_.size());
  if (rest > 0) refuse_comparison(op_ + wanted_.substr(0, rest), text);
}

bool RunFilter::holds(const nlohmann::json& value) const {
  if (value.is_null()) return false;
  const auto wanted = number_in(wanted_);
  if (wanted && value.is_number()) return compares(op_, value.get<double>(), *wanted);
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (op_ == "=" || op_ == "!=") return glob_matches(wanted_, text) == (op_ == "=");
  return compares(op_, text.compare(wanted_), 0);
}

std::string known_name(const std::string& name, const std::vector<std::string>& known, const char* what) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return name;
  // A whole word of a path is meant rather than a part of one: lr is optimizer.lr, not distribute.outer_lr.
  std::vector<std::string> ends;
  for (const char* before : {".", "_"}) {
    if (!ends.empty()) break;
    std::copy_if(known.begin(), known.end(), std::back_inserter(ends),
                 [&](const std::string& one) { return one.ends_with(before + name); });
  }
  if (ends.size() == 1) return ends.front();
  const std::string near = ends.empty() ? nearest(name, known) : "";
  std::vector<std::string> columns;  // settings are paths, and many
  std::copy_if(known.begin(), known.end(), std::back_inserter(columns),
               [](const std::string& one) { return one.find('.') == std::string::npos; });
  fail("[runs] expected {} of these runs, got '{}'{}", what, name,
       !ends.empty()   ? fmt::format(", which may be any of ({})", fmt::join(ends, ", "))
       : !near.empty() ? fmt::format(" (did you mean '{}'?)", near)
                       : fmt::format("; they have ({}), and the settings of their jobs, as optimizer.lr",
                                     fmt::join(columns, ", ")));
}

}  // namespace starling::train
