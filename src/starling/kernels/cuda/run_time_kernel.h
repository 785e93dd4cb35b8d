#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

namespace starling::cuda {

// CUDA kernel compiled at run time (NVRTC), while a program is planned. The source defines `extern "C" __global__ void
// run(…)`, which takes pointers only. Kept for the life of the process; any thread may launch it.
class RunTimeKernel {
 public:
  // Compiles for the current device, or returns the cached kernel of the same source. Throws with the compiler's log.
  // Without a GPU it compiles for sm_90, and cannot be launched.
  static const RunTimeKernel& of(const std::string& source);

  // Enqueues a launch. `arguments` points at the pointers, as for cudaLaunchKernel. Throws when the launch fails.
  void launch(std::int64_t blocks, int threads, void** arguments, cudaStream_t stream) const;

 private:
  explicit RunTimeKernel(const std::string& source);
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
};

// Machine code of a source for an architecture such as sm_90; needs no GPU.
std::string compile_source(const std::string& source, const std::string& architecture);

}  // namespace starling::cuda
