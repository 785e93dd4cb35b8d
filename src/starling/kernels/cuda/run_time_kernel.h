#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

namespace starling::cuda {

// Device code compiled while a program is planned. The source defines `extern "C" __global__ void run(…)`, which takes
// pointers only. Kept for the life of the process; any thread may launch it.
class RunTimeKernel {
 public:
  // Compiles for the current device, or finds what the same source gave before. Throws with the compiler's words.
  static const RunTimeKernel& of(const std::string& source);

  // `arguments` points at the pointers, as cudaLaunchKernel wants it. Throws when the launch fails.
  void launch(std::int64_t blocks, int threads, void** arguments, cudaStream_t stream) const;

 private:
  explicit RunTimeKernel(const std::string& source);
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
};

// The machine code of a source for an architecture such as sm_90; needs no GPU.
std::string compile_source(const std::string& source, const std::string& architecture);

}  // namespace starling::cuda
