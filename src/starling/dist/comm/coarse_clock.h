#pragma once

#include <time.h>

#include "starling/dist/comm/call.h"

namespace starling::dist {

// CommClock at the kernel's last tick: at most kTick late. An exact clock read costs as much as everything else a small
// call does before it is posted.
inline constexpr std::chrono::milliseconds kTick{10};

inline CommTime about_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return CommTime(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

}  // namespace starling::dist
