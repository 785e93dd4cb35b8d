#include "starling/dist/health/rank_names.h"

#include <fmt/format.h>

namespace starling::dist {

std::string rank_names(std::span<const int> ranks) {
  if (ranks.empty()) return "no rank";
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace starling::dist
