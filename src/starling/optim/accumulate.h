#pragma once

#include "starling/ops/binary.h"

namespace starling::optim {

// Gradient accumulation: adds the gradients of `share` · loss to the slots, which stay alive until a step uses them up.
// One batch as k micro-batches is k calls with the share of the samples that each holds (1 / k of equal ones), then a
// step. In compiled code two functions share the slots, which are variables of both:
//   auto add = compile([&](const Tensor& x, const Tensor& y) { accumulate(loss(x, y), 0.25); });
//   auto last = compile([&](const Tensor& x, const Tensor& y) { accumulate(loss(x, y), 0.25); opt.step(); });
inline void accumulate(const Tensor& loss, double share) { mul(loss, share).backward(); }

}  // namespace starling::optim
