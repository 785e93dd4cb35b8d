#pragma once

namespace starling {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace starling
