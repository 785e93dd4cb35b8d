#pragma once

#include "starling/tensor/dtype.h"

namespace starling {

// What this machine can do, as measured by a short probe.
struct Peak {
  double flops_per_s = 0;
  double bytes_per_s = 0;
};

// The fastest of several products of square matrices that stay in cache, and of several sweeps y = a x + y over memory
// that does not, with `threads` threads; about half a second. The CPU only.
Peak measure_peak(DType dtype, int threads);

}  // namespace starling
