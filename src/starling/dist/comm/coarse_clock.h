#pragma once

#include <time.h>

#include "starling/dist/comm/call.h"

namespace starling {

// CommClock as the kernel left it at its last tick: late by kTick at most. Reading CommClock itself takes as long as
// all else that a small call does before it is posted.
inline constexpr std::chrono::milliseconds kTick{10};

inline CommTime about_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return CommTime(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

}  // namespace starling
