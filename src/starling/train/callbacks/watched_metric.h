#pragma once

#include <optional>
#include <string>

#include "starling/train/callback.h"

namespace starling {

// A metric of the last evaluation. Nothing while a callback that will report it has not begun to, as averages of
// weights do; throws "[who] expected …" naming those there are when nobody will.
std::optional<double> watched_metric(const Run& run, const std::string& metric, const char* who);

}  // namespace starling
