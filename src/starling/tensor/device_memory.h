#pragma once

#include <cstddef>

#include "starling/tensor/device.h"

namespace starling {

// Memory functions of a kind of device. CUDA's table comes from tensor/cuda or, in builds without CUDA, from
// no_cuda.cpp, whose functions throw.
struct DeviceMemory {
  void* (*allocate)(std::size_t bytes, int index);  // 64-byte aligned; throws when out of memory
  void (*free)(void* data, std::size_t bytes, int index);
  void (*to_host)(void* host, const void* device, std::size_t bytes);  // synchronous: bytes have arrived on return
  void (*from_host)(void* device, const void* host, std::size_t bytes);
  void (*within)(void* to, const void* from, std::size_t bytes);
  // Copy within the memory, and zeros: where the device has a default stream, they only follow what that was given.
  void (*enqueue_copy)(void* to, const void* from, std::size_t bytes);
  void (*enqueue_zeros)(void* data, std::size_t bytes);
};

const DeviceMemory& device_memory(DeviceKind kind);

const DeviceMemory& cuda_memory();
bool built_with_cuda();
int cuda_device_count();  // 0 in builds without CUDA and on machines without a GPU

}  // namespace starling
