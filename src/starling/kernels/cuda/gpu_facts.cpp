#include "starling/kernels/gpu_facts.h"

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <filesystem>

#include "starling/kernels/cuda/convolution.h"

namespace starling::kernels {
namespace {

// CUDA's own numbers are major · 1000 + minor · 10.
int version_of(int cuda) { return cuda / 1000 * 10000 + cuda % 1000 / 10 * 100; }

GpuFacts::Gpu look_at(int index) {
  GpuFacts::Gpu gpu;
  cudaDeviceProp properties;
  cudaError_t status = cudaGetDeviceProperties(&properties, index);
  if (status == cudaSuccess) {
    gpu.name = properties.name;
    gpu.total = static_cast<std::int64_t>(properties.totalGlobalMem);
    gpu.major = properties.major;
    gpu.minor = properties.minor;
    std::size_t free = 0, total = 0;
    status = cudaSetDevice(index);
    if (status == cudaSuccess) status = cudaMemGetInfo(&free, &total);
    gpu.free = static_cast<std::int64_t>(free);
  }
  if (status != cudaSuccess) gpu.refusal = cudaGetErrorString(status);
  static_cast<void>(cudaGetLastError());
  return gpu;
}

}  // namespace

GpuFacts gpu_facts() {
  GpuFacts facts;
  facts.built = true;
  std::error_code unreadable;
  facts.nodes = std::filesystem::exists("/dev/nvidiactl", unreadable);
  int driver = 0, runtime = 0, count = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess) facts.driver = version_of(driver);
  if (cudaRuntimeGetVersion(&runtime) == cudaSuccess) facts.runtime = version_of(runtime);
  facts.cublaslt = static_cast<int>(cublasLtGetVersion());
  facts.cudnn = cuda::cudnn_version();
  facts.cudnn_built = facts.cudnn >= 0;
  if (!facts.cudnn_built) facts.cudnn = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  if (counted != cudaSuccess) {
    facts.refusal = cudaGetErrorString(counted);
    return facts;
  }
  int before = 0;
  static_cast<void>(cudaGetDevice(&before));
  for (int i = 0; i < count; ++i) facts.gpus.push_back(look_at(i));
  static_cast<void>(cudaSetDevice(before));
  return facts;
}

}  // namespace starling::kernels
