#pragma once

// Include before any Highway header. Few code paths keep compile time short and are all tested: AVX-512, AVX2, and
// Highway's baseline, which is right on every x86-64 but not fast. Newer versions of Highway know more sets, which are
// left out by their bits.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_SSSE3 | 0xFF)
#endif
