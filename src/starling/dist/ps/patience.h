#pragma once

#include <chrono>

namespace starling::dist::ps {

using SteadyClock = std::chrono::steady_clock;

inline double seconds_of(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }
inline double seconds_since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

}  // namespace starling::dist::ps
