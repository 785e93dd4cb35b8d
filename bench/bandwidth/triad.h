#pragma once

#include <cstdint>

// a = b + s · c over n floats, the yardstick of memory speed, with the threads of this region. `stream` writes past the
// caches, which saves reading what is overwritten. Arrays are 64-byte aligned.
void triad(float* a, const float* b, const float* c, float s, std::int64_t n, bool stream);
