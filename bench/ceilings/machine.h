#pragma once

namespace starling::ceilings {

// The most this machine does, measured: single-precision GFLOP/s of independent fused multiply-adds in registers, and
// GB/s of a[i] = b[i] + s·c[i] over arrays far larger than the caches (reads and the write counted, not the
// write-allocate).
double peak_gflops(int threads);
double triad_gbs(int threads);

// The vector target the peak was measured with, as Highway names it.
const char* vector_target();

}  // namespace starling::ceilings
