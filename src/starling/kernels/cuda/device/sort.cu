#include <cub/device/device_radix_sort.cuh>

#include "starling/kernels/cuda/device/sort.h"

namespace starling::device {

cudaError_t sort_temporary(unsigned count, unsigned long long* bytes) {
  std::size_t needed = 0;
  const unsigned long long* keys = nullptr;
  const unsigned* positions = nullptr;
  const cudaError_t status =
      cub::DeviceRadixSort::SortPairs(nullptr, needed, keys, static_cast<unsigned long long*>(nullptr), positions,
                                      static_cast<unsigned*>(nullptr), count);
  *bytes = needed;
  return status;
}

cudaError_t launch_sort(const SortPairs& sort, void* temporary, unsigned long long bytes, cudaStream_t stream) {
  std::size_t given = bytes;
  return cub::DeviceRadixSort::SortPairs(temporary, given, sort.keys, sort.sorted_keys, sort.positions,
                                         sort.sorted_positions, sort.count, 0, sort.bits, stream);
}

}  // namespace starling::device
