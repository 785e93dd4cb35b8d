#pragma once

namespace starling {

// Finds out once which instruction sets this processor has. Functions taken from Highway's tables before that would ask
// the processor at every call, which costs tens of microseconds on virtual machines.
void choose_simd_target();

}  // namespace starling
