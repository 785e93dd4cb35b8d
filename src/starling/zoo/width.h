#pragma once

#include <algorithm>
#include <cmath>

#include "starling/zoo/zoo.h"

namespace starling::zoo {

// A published number of channels or units at the width that the options ask for.
inline std::int64_t scaled(std::int64_t published, const NetOptions& options) {
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(published) * options.width));
}

inline std::int64_t or_published(std::int64_t wanted, std::int64_t published) {
  return wanted > 0 ? wanted : published;
}

}  // namespace starling::zoo
