#pragma once

#include <cstdint>
#include <span>

#include "update_numbers.gen.h"

namespace starling::kernels {

// One step for every element of every tensor: one pass over memory and one parallel region over all tensors, split by
// elements. Results do not depend on the threads. Never allocates.
template <class T>
void update_tensors(std::span<const UpdateTensor<T>> tensors, const UpdateNumbers<T>& numbers);

// Update of one tensor on this thread; used for updates of rows.
template <class T>
void update_piece(const UpdateTensor<T>& tensor, const UpdateNumbers<T>& numbers);

// Update by rules that need norms of whole tensors first: two passes, two regions. `scratch` holds
// trust_scratch(tensors) bytes.
template <class T>
void update_trusted(std::span<const UpdateTensor<T>> tensors, const UpdateNumbers<T>& numbers, void* scratch);
std::size_t trust_scratch(std::span<const std::int64_t> sizes);

}  // namespace starling::kernels
