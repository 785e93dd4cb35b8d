#include "starling/nn/sequence.h"

#include "starling/ops/api/reduce.h"
#include "starling/ops/api/views.h"

namespace starling::nn {

Tensor TimeFirst::forward(const Tensor& x) { return swapaxes(x, 0, 1); }
Tensor MeanOverTime::forward(const Tensor& x) { return mean(x, {.axes = {0}}); }

}  // namespace starling::nn
