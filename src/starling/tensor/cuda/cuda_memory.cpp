#include "starling/tensor/cuda/cuda_error.h"
#include "starling/tensor/device_memory.h"
#include "starling/tensor/out_of_memory.h"

namespace starling {
namespace {

[[noreturn]] void refuse(std::size_t bytes, int index) {
  static_cast<void>(cudaGetLastError());  // the next call must not find this one's error
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "asking for the memory left");
  throw OutOfMemory(
      fmt::format("[allocator] expected {} bytes on cuda:{}, got none: {} of {} are left", bytes, index, free, total));
}

void* allocate(std::size_t bytes, int index) {
  check_cuda(cudaSetDevice(index), "choosing a device");
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) refuse(bytes, index);
  check_cuda(status, "allocating device memory");
  return data;
}

// Called from destructors, possibly after driver shutdown: failures are ignored.
void free_memory(void* data, std::size_t, int index) {
  if (cudaSetDevice(index) == cudaSuccess) static_cast<void>(cudaFree(data));
}

// Copies use the default stream, as programs and eager kernels do, so no further ordering is needed.
void to_host(void* host, const void* device, std::size_t bytes) {
  if (bytes > 0) check_cuda(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), "copying to the host");
}

// A copy from pageable memory may return once the bytes are staged; later work on the default stream still runs after
// it.
void from_host(void* device, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  check_cuda(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "copying to the device");
  check_cuda(cudaStreamSynchronize(cudaStreamLegacy), "copying to the device");
}

void within(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cudaStreamLegacy), "copying on the device");
  check_cuda(cudaStreamSynchronize(cudaStreamLegacy), "copying on the device");
}

void enqueue_copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0 || to == from) return;
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cudaStreamLegacy), "copying on the device");
}

void enqueue_zeros(void* data, std::size_t bytes) {
  if (bytes > 0) check_cuda(cudaMemsetAsync(data, 0, bytes, cudaStreamLegacy), "clearing memory of the device");
}

constexpr DeviceMemory kCudaMemory{allocate, free_memory, to_host, from_host, within, enqueue_copy, enqueue_zeros};

}  // namespace

const DeviceMemory& cuda_memory() { return kCudaMemory; }

bool built_with_cuda() { return true; }

int cuda_device_count() {
  static const int count = [] {
    int found = 0;
    if (cudaGetDeviceCount(&found) == cudaSuccess) return found;
    static_cast<void>(cudaGetLastError());  // no driver or no device is not an error here
    return 0;
  }();
  return count;
}

}  // namespace starling
