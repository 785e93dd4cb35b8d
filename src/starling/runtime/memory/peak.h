#pragma once

#include "starling/tensor/device.h"
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

// Peak of a GPU: products of 8192 × 8192 matrices of zeros, and sums over 1 GiB. Takes a few milliseconds and 3
// GiB.
Peak measure_device_peak(Device device, DType dtype);

}  // namespace starling::runtime
