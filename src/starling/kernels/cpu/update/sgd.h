#pragma once

#include <cstdint>
#include <span>

#include "starling/ops/def/attrs/state.h"

namespace starling::kernels {

// One parameter of a multi-tensor update: contiguous arrays of n elements. `velocity` may be null when momentum is
// zero.
template <class T>
struct SgdTensor {
  T* weight;
  const T* gradient;
  T* velocity;
  std::int64_t n;
};

struct SgdOptions {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// Updates every element of every tensor:
//   g = gradient + weight_decay * weight;  velocity = momentum * velocity + g
//   weight -= lr * (nesterov ? g + momentum * velocity : velocity)
// One parallel region over all tensors, split by
// elements. Results do not depend on the threads. Never allocates.
template <class T>
void sgd_update(std::span<const SgdTensor<T>> tensors, double lr, const SgdOptions& options);

}  // namespace starling::kernels
