#include "starling/dist/ps/portion_set.h"

#include <iterator>

namespace starling::dist::ps {

bool PortionSet::contains(std::int64_t portion) const {
  const auto after = runs_.upper_bound(portion);
  return after != runs_.begin() && portion < std::prev(after)->second;
}

bool PortionSet::add(std::int64_t portion) {
  if (contains(portion)) return false;
  const auto after = runs_.upper_bound(portion);
  const bool extends = after != runs_.begin() && std::prev(after)->second == portion;
  const auto run = extends ? std::prev(after) : runs_.emplace_hint(after, portion, portion);
  run->second = portion + 1;
  if (after == runs_.end() || after->first != run->second) return true;
  run->second = after->second;
  runs_.erase(after);
  return true;
}

}  // namespace starling::dist::ps
