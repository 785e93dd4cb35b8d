#pragma once

#include "starling/tensor/dtype.h"

namespace starling::runtime {

// Peak rates of this machine, measured by a short probe.
struct Peak {
  double flops_per_s = 0;
  double bytes_per_s = 0;
};

// Fastest of several matrix products that fit the cache, and of several sweeps y = a x + y over memory that does not,
// with `threads` threads; takes about half a second. CPU only.
Peak measure_peak(DType dtype, int threads);

}  // namespace starling::runtime
