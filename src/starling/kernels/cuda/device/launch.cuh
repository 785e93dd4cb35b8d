#pragma once

#include <cuda_runtime.h>

namespace starling::device {

// Programmatic dependent launch; every kernel here begins with begin(). Waits until the kernel before has ended and its
// writes are visible, and lets the next kernel of the stream start while this one runs. Kernels launched by launch()
// rely on it.
__device__ __forceinline__ void begin() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

struct LaunchShape {
  dim3 grid;
  dim3 block;
  unsigned shared_bytes = 0;
  unsigned cluster_z = 1;  // blocks along z of one cluster
};

// Launches a kernel overlapped with the end of the one before, also when captured into a CUDA graph.
template <class... Params, class... Args>
cudaError_t launch(void (*kernel)(Params...), const LaunchShape& shape, cudaStream_t stream, Args... args) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = 1;
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = shape.cluster_z;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = shape.cluster_z > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
}

// Loads a kernel's code onto the device, so that capturing a launch of it later loads nothing.
template <class... Params>
cudaError_t load(void (*kernel)(Params...)) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel);
}

inline unsigned blocks_for(long long items, int per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

// Reduction of a value over a block, in every thread; `shared` has room for 32 values.
template <class T, class Join>
__device__ __forceinline__ T block_reduce(T value, T nothing, T* shared, Join join) {
  for (int offset = 16; offset > 0; offset /= 2) value = join(value, __shfl_xor_sync(0xffffffffu, value, offset));
  const int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) shared[warp] = value;
  __syncthreads();
  value = threadIdx.x % 32 < (blockDim.x + 31) / 32 ? shared[threadIdx.x % 32] : nothing;
  for (int offset = 16; offset > 0; offset /= 2) value = join(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

template <class T, class Join>
__device__ __forceinline__ T warp_reduce(T value, Join join) {
  for (int offset = 16; offset > 0; offset /= 2) value = join(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};
// Maximum in which NaN wins, as in the reference.
struct Larger {
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

}  // namespace starling::device
