#include "starling/cli/terminal/name_hint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "starling/base/config/nearest.h"

namespace starling::cli {

std::string name_hint(const std::string& name, const std::vector<std::string>& known, const std::string& list) {
  constexpr std::size_t kMostNames = 6;
  std::vector<std::string> with;
  const auto has_it = [&](const std::string& one) { return !name.empty() && one.find(name) != std::string::npos; };
  std::copy_if(known.begin(), known.end(), std::back_inserter(with), has_it);
  // A name with the whole word in it is more likely meant than one that differs by letters: resnet is resnet18, not
  // lenet.
  const std::string near = nearest(name, known);
  if (!near.empty() && (with.empty() || has_it(near))) return fmt::format(" (did you mean '{}'?)", near);
  if (with.empty()) return fmt::format(" (`{}` lists all)", list);
  const bool more = with.size() > kMostNames;
  if (more) with.resize(kMostNames);
  return fmt::format(" ({}{} {} it in {}; `{}` lists all)", fmt::join(with, ", "), more ? ", …" : "",
                     with.size() == 1 ? "has" : "have", with.size() == 1 ? "its name" : "their names", list);
}

}  // namespace starling::cli
