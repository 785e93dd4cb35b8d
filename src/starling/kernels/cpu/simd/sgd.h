#pragma once

#include <cstdint>
#include <span>

namespace starling {

// One parameter of a fused update: contiguous arrays of n elements. `velocity` may be null when momentum is zero.
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

// For every element of every tensor:
//   g = gradient + weight_decay * weight;  velocity = momentum * velocity + g
//   weight -= lr * (nesterov ? g + momentum * velocity : velocity)
// `lr` is read once, when called: a schedule writes it between steps. One parallel region over all tensors, cut by
// elements. Each element's result does not depend on the threads. Never allocates.
template <class T>
void sgd_update(std::span<const SgdTensor<T>> tensors, const float* lr, const SgdOptions& options);

}  // namespace starling
