#pragma once

#include <cstdint>
#include <span>

#include "starling/kernels/cpu/update/update_numbers.h"

namespace starling::kernels {

// One parameter of a multi-tensor update: contiguous arrays of n elements.
template <class T>
struct UpdateTensor {
  static constexpr std::size_t kMost = 4;
  T* targets[kMost];  // weight, then its states
  const T* gradient;
  std::int64_t n;
};

// One step for every element of every tensor: one pass over memory and one parallel region over all tensors, split by
// elements. Results do not depend on the threads. Never allocates.
template <class T>
void update_tensors(std::span<const UpdateTensor<T>> tensors, const UpdateNumbers<T>& numbers);

// Update of one tensor on this thread; used for updates of rows.
template <class T>
void update_piece(const UpdateTensor<T>& tensor, const UpdateNumbers<T>& numbers);

// Update by rules that need norms of whole tensors first (LAMB, LARS): two passes, two regions. `scratch` holds
// trust_scratch(tensors) bytes.
template <class T>
void update_trusted(std::span<const UpdateTensor<T>> tensors, const TrustNumbers<T>& numbers, void* scratch);
std::size_t trust_scratch(std::span<const std::int64_t> sizes);

}  // namespace starling::kernels
