#include <algorithm>
#include <vector>

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
    capture([&] { enqueue(stream_); });
  }

  void record_steps(std::span<const std::vector<int>> before,
                    FunctionRef<void(std::size_t step, void* stream)> enqueue) override {
    capture([&] {
      std::vector<Ends> ends(before.size());
      for (std::size_t i = 0; i < before.size(); ++i) {
        follow(before[i], ends);
        enqueue(i, stream_);
        ends[i] = current_ends();
      }
    });
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
  // Nodes that what is recorded next follows, and how.
  struct Ends {
    std::vector<cudaGraphNode_t> nodes{};
    std::vector<cudaGraphEdgeData> edges{};
  };

  void use_device() const { check_cuda(cudaSetDevice(device_), "choosing a device"); }

  void capture(FunctionRef<void()> enqueue) {
    use_device();
    release();
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "beginning to record");
    try {
      enqueue();
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

  Ends current_ends() const {
    cudaStreamCaptureStatus status{};
    const cudaGraphNode_t* nodes = nullptr;
    const cudaGraphEdgeData* edges = nullptr;
    std::size_t count = 0;
    check_cuda(cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &nodes, &edges, &count),
               "recording a step");
    Ends made{{nodes, nodes + count}, std::vector<cudaGraphEdgeData>(count)};
    if (edges) made.edges.assign(edges, edges + count);
    return made;
  }

  // Puts what is recorded next behind these steps. Where there are several an empty node joins them, so that a kernel
  // that may start before the one before it has ended has only one of those.
  void follow(const std::vector<int>& steps, const std::vector<Ends>& ends) const {
    Ends wanted;
    for (int step : steps) {
      const Ends& one = ends[static_cast<std::size_t>(step)];
      for (std::size_t i = 0; i < one.nodes.size(); ++i) {
        if (std::find(wanted.nodes.begin(), wanted.nodes.end(), one.nodes[i]) != wanted.nodes.end()) continue;
        wanted.nodes.push_back(one.nodes[i]);
        wanted.edges.push_back(one.edges[i]);
      }
    }
    if (wanted.nodes.size() > 1) {
      cudaStreamCaptureStatus status{};
      cudaGraph_t graph = nullptr;
      check_cuda(cudaStreamGetCaptureInfo(stream_, &status, nullptr, &graph, nullptr, nullptr, nullptr),
                 "recording a step");
      cudaGraphNode_t joined = nullptr;
      check_cuda(cudaGraphAddEmptyNode(&joined, graph, wanted.nodes.data(), wanted.nodes.size()), "recording a step");
      wanted = {{joined}, std::vector<cudaGraphEdgeData>(1)};
    }
    check_cuda(cudaStreamUpdateCaptureDependencies(stream_, wanted.nodes.data(), wanted.edges.data(),
                                                   wanted.nodes.size(), cudaStreamSetCaptureDependencies),
               "recording a step");
  }

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
