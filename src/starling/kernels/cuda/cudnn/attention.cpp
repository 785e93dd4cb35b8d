#include <limits>
#include <vector>

#include "starling/kernels/cuda/cudnn/attention_graph.h"
#include "starling/kernels/cuda/cudnn/handle.h"
#include "starling/kernels/cuda/library_attention.h"
#include "starling/kernels/cuda/stream.h"

namespace starling::cuda {
namespace {

using device::Attention;

constexpr std::size_t kMostPlans = 2;
constexpr std::size_t kMostScratch = std::size_t{1} << 30;

std::size_t padded(std::size_t bytes) {
  return (bytes + kLibraryAlignment - 1) / kLibraryAlignment * kLibraryAlignment;
}

class CudnnAttention final : public LibraryAttention {
 public:
  CudnnAttention(std::shared_ptr<const AttentionGraph> graph, std::unique_ptr<GraphPlan> plan)
      : graph_(std::move(graph)), plan_(std::move(plan)) {
    std::size_t bytes = padded(plan_->scratch_bytes());
    for (const std::size_t own : graph_->scratch) bytes += padded(own);
    scratch_bytes = library_scratch(bytes);
  }

  void run(const device::FlashForward& f, void* scratch, cudaStream_t stream) const override {
    run({f.q, f.k, f.v, f.y, f.lse.data}, scratch, stream);
  }
  void run(const device::FlashBackward& b, void* scratch, cudaStream_t stream) const override {
    run({b.q, b.k, b.v, b.y, b.dy, b.lse.data, b.dq, b.dk, b.dv}, scratch, stream);
  }

 private:
  void run(std::initializer_list<const void*> operands, void* scratch, cudaStream_t stream) const {
    std::vector<OperationGraph::Tensor> tensors = graph_->tensors;
    std::vector<void*> pointers;
    for (const void* operand : operands) pointers.push_back(const_cast<void*>(operand));
    auto* at = static_cast<std::byte*>(library_aligned(scratch));
    for (const std::size_t own : graph_->scratch) {
      pointers.push_back(at);
      at += padded(own);
    }
    const auto numbers = graph_->graph.numbers();
    const auto values = graph_->graph.number_values();
    tensors.insert(tensors.end(), numbers.begin(), numbers.end());
    pointers.insert(pointers.end(), values.begin(), values.end());
    LibraryHandle::shared().with(stream, [&](cudnnHandle_t handle) { plan_->run(handle, tensors, pointers, at); });
  }

  std::shared_ptr<const AttentionGraph> graph_;
  std::unique_ptr<GraphPlan> plan_;
};

TimedAttention fastest(AttentionPass pass, const Attention& a, device::Real kind) {
  const auto graph = std::make_shared<AttentionGraph>();
  describe_attention(pass, a, kind == device::Real::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF, *graph);
  auto plans = LibraryHandle::shared().with(
      cudaStreamLegacy, [&](cudnnHandle_t handle) { return graph->graph.plans(handle, kMostPlans); });
  TimedAttention best{nullptr, std::numeric_limits<float>::infinity()};
  const AttentionTrial trial(pass, a);
  for (auto& plan : plans) {
    const auto made = std::make_shared<const CudnnAttention>(graph, std::move(plan));
    if (made->scratch_bytes > kMostScratch) continue;
    try {
      const TrialMemory scratch(made->scratch_bytes);
      const float ms = time_on_device([&](cudaStream_t stream) { trial.run(*made, scratch.data(), stream); });
      if (ms < best.ms) best = {made, ms};
    } catch (const Error&) {
      static_cast<void>(cudaGetLastError());
    }
  }
  return best;
}

}  // namespace

TimedAttention cudnn_attention(AttentionPass pass, const Attention& a, device::Real kind) {
  if (!cudnn_takes(pass, a, cudnnGetVersion())) return {};
  try {
    return fastest(pass, a, kind);
  } catch (const Error&) {  // a device or sizes that cuDNN does not take: other kernels do
    static_cast<void>(cudaGetLastError());
    return {};
  }
}

}  // namespace starling::cuda
