#include "starling/kernels/cuda/run_time_kernel.h"

#include <nvrtc.h>

#include <map>
#include <memory>
#include <mutex>

#include "starling/tensor/cuda/cuda_error.h"
#include "starling/tensor/device_memory.h"

namespace starling::cuda {
namespace {

void check_nvrtc(nvrtcResult status, const char* what) {
  check(status == NVRTC_SUCCESS, "[cuda] expected {} to succeed, got {}", what, nvrtcGetErrorString(status));
}

std::string log_of(nvrtcProgram program) {
  std::size_t size = 0;
  check_nvrtc(nvrtcGetProgramLogSize(program, &size), "reading the compiler's log");
  std::string log(size, '\0');
  check_nvrtc(nvrtcGetProgramLog(program, log.data()), "reading the compiler's log");
  return log;
}

std::string architecture_of_device() {
  int device = 0, major = 0, minor = 0;
  check_cuda(cudaGetDevice(&device), "asking for the device");
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
             "asking for the device's architecture");
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
             "asking for the device's architecture");
  return fmt::format("sm_{}{}", major, minor);
}

}  // namespace

std::string compile_source(const std::string& source, const std::string& architecture) {
  nvrtcProgram program = nullptr;
  check_nvrtc(nvrtcCreateProgram(&program, source.c_str(), "elementwise.cu", 0, nullptr, nullptr),
              "reading device code");
  const std::unique_ptr<nvrtcProgram, void (*)(nvrtcProgram*)> owner(&program,
                                                                     [](nvrtcProgram* p) { nvrtcDestroyProgram(p); });
  const std::string target = "--gpu-architecture=" + architecture;
  const char* options[] = {target.c_str(), "--std=c++17"};
  const nvrtcResult compiled = nvrtcCompileProgram(program, 2, options);
  check(compiled == NVRTC_SUCCESS, "[cuda] expected device code to compile, got {}\n{}", log_of(program), source);
  std::size_t size = 0;
  check_nvrtc(nvrtcGetCUBINSize(program, &size), "reading machine code");
  std::string code(size, '\0');
  check_nvrtc(nvrtcGetCUBIN(program, code.data()), "reading machine code");
  return code;
}

// Without a GPU the code is compiled all the same, so that programs can be planned and their kernels checked there.
RunTimeKernel::RunTimeKernel(const std::string& source) {
  if (cuda_device_count() == 0) {
    compile_source(source, "sm_90");
    return;
  }
  const std::string code = compile_source(source, architecture_of_device());
  check_cuda(cudaLibraryLoadData(&library_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
             "loading device code");
  check_cuda(cudaLibraryGetKernel(&kernel_, library_, "run"), "finding a kernel");
  cudaFuncAttributes attributes;  // the query loads the code onto the device, so that capturing a launch loads nothing
  check_cuda(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel_)), "loading a kernel");
}

const RunTimeKernel& RunTimeKernel::of(const std::string& source) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::string, std::unique_ptr<const RunTimeKernel>>;
  const std::lock_guard lock(mutex);
  auto& slot = known[source];
  if (!slot) slot.reset(new RunTimeKernel(source));
  return *slot;
}

void RunTimeKernel::launch(std::int64_t blocks, int threads, void** arguments, cudaStream_t stream) const {
  check(kernel_ != nullptr, "[cuda] expected a GPU to launch a kernel on, got none");
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = 1;
  check_cuda(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel_), arguments), "launching a kernel");
}

}  // namespace starling::cuda
