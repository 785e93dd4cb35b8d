#pragma once

#include "starling/ops/api/binary.h"

namespace starling::optim {

// Gradient accumulation: adds the gradients of `share` · loss to the grad slots, which keep their values until an
// optimizer step consumes them. A batch of k micro-batches is k calls, each with its share of the samples (1 / k if
// equal), then a step. In compiled code two functions share the slots, which are variables of both:
//   auto add = compile([&](const Tensor& x, const Tensor& y) { accumulate(loss(x, y), 0.25); });
//   auto last = compile([&](const Tensor& x, const Tensor& y) { accumulate(loss(x, y), 0.25); opt.step(); });
inline void accumulate(const Tensor& loss, double share) { mul(loss, share).backward(); }

}  // namespace starling::optim
