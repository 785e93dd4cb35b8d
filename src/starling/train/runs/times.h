#pragma once

#include <string>

namespace starling::train {

std::string duration_text(double seconds);  // 12.3 s, 3 min 20 s, 2 h 05 min
std::string moment_text(double seconds);    // of seconds since 1970: 2026-11-16 22:10, local time
std::string second_text(double seconds);    // 2026-11-16 22:10:05

}  // namespace starling::train
