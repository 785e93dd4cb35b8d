#include "starling/runtime/execution/replay.h"
#include "starling/tensor/cuda/cuda_error.h"

namespace starling::runtime {
namespace {

// Recorded on its own stream, launched in the default stream: so replays, eager kernels and copies run in the order of
// their calls, whatever the number of recordings.
class CudaReplay final : public DeviceRecording {
 public:
  explicit CudaReplay(int device) : device_(device) {
    use_device();
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  }
  CudaReplay(const CudaReplay&) = delete;
  CudaReplay& operator=(const CudaReplay&) = delete;
  ~CudaReplay() override {
    release();
    static_cast<void>(cudaStreamDestroy(stream_));
  }

  bool recorded() const override { return program_ != nullptr; }

  void record(FunctionRef<void(void* stream)> enqueue) override {
    use_device();
    release();
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "beginning to record");
    try {
      enqueue(stream_);
    } catch (...) {
      abandon();
      throw;
    }
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream_, &graph), "ending a recording");
    const cudaError_t made = cudaGraphInstantiate(&program_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    check_cuda(made, "making a program of a recording");
    check_cuda(cudaGraphUpload(program_, cudaStreamLegacy), "uploading a program");
  }

  void launch() override {
    use_device();
    check_cuda(cudaGraphLaunch(program_, cudaStreamLegacy), "launching a program");
  }

  void synchronize() override {
    use_device();
    check_cuda(cudaStreamSynchronize(cudaStreamLegacy), "running a program");
  }

 private:
  void use_device() const { check_cuda(cudaSetDevice(device_), "choosing a device"); }

  void abandon() {
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(stream_, &graph) == cudaSuccess && graph) static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaGetLastError());
  }

  void release() {
    if (program_) static_cast<void>(cudaGraphExecDestroy(program_));
    program_ = nullptr;
  }

  int device_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t program_ = nullptr;
};

}  // namespace

std::unique_ptr<DeviceRecording> make_cuda_replay(int device) { return std::make_unique<CudaReplay>(device); }

}  // namespace starling::runtime
