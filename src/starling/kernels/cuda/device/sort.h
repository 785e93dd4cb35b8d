#pragma once

#include <cuda_runtime.h>

namespace starling::device {

// Stable sort of pairs (key, position) by the low `bits` bits of the key. Counts are below 2^32.
struct SortPairs {
  const unsigned long long* keys = nullptr;
  unsigned long long* sorted_keys = nullptr;
  const unsigned* positions = nullptr;
  unsigned* sorted_positions = nullptr;
  unsigned count = 0;
  int bits = 64;
};

// Bytes of temporary memory for a sort of so many pairs; reads sizes of the current device.
cudaError_t sort_temporary(unsigned count, unsigned long long* bytes);
// Enqueues the sort; allocates nothing, so that it may be captured.
cudaError_t launch_sort(const SortPairs& sort, void* temporary, unsigned long long bytes, cudaStream_t stream);

}  // namespace starling::device
