#pragma once

#include <chrono>

namespace starling {

// Clock for durations: it never goes back, and its zero means nothing.
using SteadyClock = std::chrono::steady_clock;

inline double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}
inline double milliseconds_since(SteadyClock::time_point start) { return 1e3 * seconds_since(start); }

// Seconds since the clock's zero, for differences.
inline double steady_seconds() { return seconds_since({}); }

}  // namespace starling
