#include <fmt/format.h>

#include "starling/kernels/gpu_facts.h"

namespace starling::kernels {
namespace {

constexpr int kLeastMajor = 9;  // device code is compiled for sm_90

std::string version(int number) {
  const int patch = number % 100;
  return fmt::format("{}.{}{}", number / 10000, number / 100 % 100, patch > 0 ? fmt::format(".{}", patch) : "");
}

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string about_driver(const GpuFacts& facts) {
  if (facts.driver == 0) {
    return facts.nodes ? "no driver library, though the device files are there (in a container, give it the driver: "
                         "--gpus all)"
                       : "no driver (install NVIDIA's; nvidia-smi shows it)";
  }
  if (facts.driver / 10000 < facts.runtime / 10000) {
    return fmt::format("the driver runs CUDA up to {}, this build needs {} (install a newer driver)",
                       version(facts.driver), version(facts.runtime));
  }
  if (!facts.nodes && facts.gpus.empty())
    return "a driver, but no device files (/dev/nvidiactl; in a container, give it the GPU: --gpus all)";
  if (!facts.refusal.empty()) return fmt::format("no GPU that can be used: {}", facts.refusal);
  if (facts.gpus.empty()) return "a driver, but no GPU (is it hidden by CUDA_VISIBLE_DEVICES?)";
  return fmt::format("driver for {}", version(facts.driver));
}

std::string about(const GpuFacts::Gpu& gpu) {
  std::string text = fmt::format("{}, {:.1f} GiB, {:.1f} GiB free, compute capability {}.{}", gpu.name, gib(gpu.total),
                                 gib(gpu.free), gpu.major, gpu.minor);
  if (!gpu.refusal.empty()) text += fmt::format("; it cannot be used: {}", gpu.refusal);
  if (gpu.major < kLeastMajor) text += fmt::format("; this build's kernels need {}.0 (Hopper) or newer", kLeastMajor);
  return text;
}

std::string libraries(const GpuFacts& facts) {
  std::string text = facts.cublaslt > 0 ? fmt::format("cuBLASLt {}", version(facts.cublaslt))
                                        : "no cuBLASLt (libcublasLt was not found: products cannot run)";
  if (!facts.cudnn_built)
    text += ", no cuDNN (install it and build again; convolutions run by slower kernels)";
  else
    text += facts.cudnn > 0 ? fmt::format(", cuDNN {}", version(facts.cudnn)) : ", no cuDNN (libcudnn does not load)";
  text += facts.nccl > 0 ? fmt::format(", NCCL {}", version(facts.nccl))
                         : ", no NCCL (install it and build again; ranks on GPUs need it)";
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> gpu_report(const GpuFacts& facts) {
  if (!facts.built) return {{"CUDA", "not built in (needs the CUDA toolkit: cmake --preset cuda)"}};
  std::vector<std::pair<std::string, std::string>> lines;
  lines.emplace_back("CUDA", fmt::format("{} built in, {}", version(facts.runtime), about_driver(facts)));
  for (std::size_t i = 0; i < facts.gpus.size(); ++i)
    lines.emplace_back(fmt::format("GPU {}", i), about(facts.gpus[i]));
  lines.emplace_back("", libraries(facts));
  return lines;
}

}  // namespace starling::kernels
