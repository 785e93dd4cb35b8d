#pragma once

namespace starling {

inline constexpr const char* kVersion = "0.2.0";

}  // namespace starling
