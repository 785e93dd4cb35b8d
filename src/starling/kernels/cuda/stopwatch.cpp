#include "starling/kernels/cuda/stopwatch.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "starling/tensor/allocator.h"
#include "starling/tensor/cuda/cuda_error.h"

namespace starling::cuda {
namespace {

constexpr int kRepetitions = 20;  // of short kernels; long ones need fewer to be told apart
constexpr int kReplays = 3;
constexpr float kEnough = 3;  // milliseconds of one replay

template <class Handle, cudaError_t (*Destroy)(Handle)>
struct Owner {
  Handle handle = nullptr;
  Owner() = default;
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    if (handle) static_cast<void>(Destroy(handle));
  }
};
using Stream = Owner<cudaStream_t, cudaStreamDestroy>;
using Event = Owner<cudaEvent_t, cudaEventDestroy>;
using Recording = Owner<cudaGraph_t, cudaGraphDestroy>;
using Program = Owner<cudaGraphExec_t, cudaGraphExecDestroy>;

// Records repetitions as in a real program, so that host launches are not measured.
void record(FunctionRef<void(cudaStream_t)> enqueue, int repetitions, cudaStream_t stream, Program& program) {
  Recording recording;
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording a measurement");
  try {
    for (int i = 0; i < repetitions; ++i) enqueue(stream);
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream, &recording.handle));
    static_cast<void>(cudaGetLastError());
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream, &recording.handle), "recording a measurement");
  check_cuda(cudaGraphInstantiate(&program.handle, recording.handle, 0), "recording a measurement");
}

}  // namespace

float time_on_device(FunctionRef<void(cudaStream_t)> enqueue) {
  Stream stream;
  Event begin, end;
  Program program;
  check_cuda(cudaStreamCreateWithFlags(&stream.handle, cudaStreamNonBlocking), "creating a stream");
  check_cuda(cudaEventCreate(&begin.handle), "creating an event");
  check_cuda(cudaEventCreate(&end.handle), "creating an event");
  enqueue(stream.handle);  // loads code, which is not allowed during capture
  check_cuda(cudaEventRecord(begin.handle, stream.handle), "measuring");
  enqueue(stream.handle);
  check_cuda(cudaEventRecord(end.handle, stream.handle), "measuring");
  check_cuda(cudaEventSynchronize(end.handle), "measuring");
  float once = 0;
  check_cuda(cudaEventElapsedTime(&once, begin.handle, end.handle), "measuring");
  const int repetitions = std::clamp(static_cast<int>(kEnough / std::max(once, 1e-3f)), 2, kRepetitions);
  record(enqueue, repetitions, stream.handle, program);
  float best = std::numeric_limits<float>::infinity();
  for (int i = 0; i <= kReplays; ++i) {  // the first replay warms caches
    check_cuda(cudaEventRecord(begin.handle, stream.handle), "measuring");
    check_cuda(cudaGraphLaunch(program.handle, stream.handle), "measuring");
    check_cuda(cudaEventRecord(end.handle, stream.handle), "measuring");
    check_cuda(cudaEventSynchronize(end.handle), "measuring");
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, begin.handle, end.handle), "measuring");
    if (i > 0) best = std::min(best, ms / static_cast<float>(repetitions));
  }
  return best;
}

// Plain memory, which no cache keeps: it is much, and planning needs it once.
TrialMemory::TrialMemory(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 256);
  int index = 0;
  check_cuda(cudaGetDevice(&index), "asking for the device");
  cudaError_t made = cudaMalloc(&data_, bytes);
  if (made == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    allocator({DeviceKind::cuda, static_cast<std::uint8_t>(index)}).release_cached();
    made = cudaMalloc(&data_, bytes);
  }
  check_cuda(made, "allocating memory for a measurement");
  const cudaError_t filled = cudaMemset(data_, 0x3c, bytes);  // the float 0.0115
  if (filled != cudaSuccess) static_cast<void>(cudaFree(data_));
  check_cuda(filled, "filling memory for a measurement");
}

TrialMemory::~TrialMemory() { static_cast<void>(cudaFree(data_)); }

}  // namespace starling::cuda
