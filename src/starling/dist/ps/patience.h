#pragma once

#include <chrono>

#include "starling/base/clock.h"

namespace starling::dist::ps {

inline double seconds_of(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace starling::dist::ps
