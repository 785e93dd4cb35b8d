#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace starling::kernels {

// GPUs of this machine and what this build uses of them. Versions are major · 10000 + minor · 100 + patch; 0: absent.
struct GpuFacts {
  struct Gpu {
    std::string name;
    std::int64_t total = 0, free = 0;  // bytes
    int major = 0, minor = 0;          // compute capability
    std::string refusal{};             // CUDA's message when the device could not be used; empty: it can be
  };
  bool built = false;     // with CUDA
  bool nodes = false;     // the driver's device files exist
  std::string refusal{};  // CUDA's message in place of a count of GPUs; empty: it counted them
  int driver = 0;         // newest CUDA that the driver runs; 0: no driver
  int runtime = 0;
  int cublaslt = 0, cudnn = 0, nccl = 0;
  bool cudnn_built = false;
  std::vector<Gpu> gpus{};
};

// Looks at this machine. It leaves `nccl` to callers, whose room has it.
GpuFacts gpu_facts();

// Lines to show, a name and a sentence each, with what is wrong and what would help.
std::vector<std::pair<std::string, std::string>> gpu_report(const GpuFacts& facts);

}  // namespace starling::kernels
