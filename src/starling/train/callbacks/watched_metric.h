#pragma once

#include <optional>
#include <string>

#include "starling/train/callback.h"

namespace starling {

// A metric of the last evaluation. nullopt if a callback will report it but has not begun to, as averaged weights do;
// throws "[who] expected …", listing the existing metrics, if nothing will report it.
std::optional<double> watched_metric(const Run& run, const std::string& metric, const char* who);

}  // namespace starling
