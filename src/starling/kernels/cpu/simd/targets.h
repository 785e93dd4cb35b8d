#pragma once

// Highway targets; include before any Highway header. Few code paths keep compile time short: AVX-512, AVX2, SSE4, and
// Highway's portable baseline of one lane, which is correct on every x86-64 but slow.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS HWY_SSSE3
#endif
