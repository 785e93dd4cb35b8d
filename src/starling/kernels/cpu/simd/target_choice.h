#pragma once

namespace starling::kernels {

// Detects the processor's instruction sets, once. Functions taken from Highway's tables before that would query the
// processor at every call, which costs tens of microseconds on virtual machines.
void choose_simd_target();

}  // namespace starling::kernels
