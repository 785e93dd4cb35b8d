#include "starling/kernels/on_host.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cuda/stream.h"

namespace starling::kernels {
namespace {

void refuse_capture(cudaStream_t stream, const std::string& op) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "asking for a stream's state");
  check(status == cudaStreamCaptureStatusNone,
        "[{}] expected a kernel on the device in a recorded program, got one that copies to the host", op);
}

// Host memory of one call. Runs allocate it, as they wait for the device anyway.
class HostCopies {
 public:
  void* add(std::size_t bytes) {
    blocks_.emplace_back(bytes / sizeof(Block) + 1);
    return blocks_.back().data();
  }

 private:
  struct alignas(64) Block {
    std::byte bytes[64];
  };
  std::vector<std::vector<Block>> blocks_;
};

class HostPlan final : public Plan {
 public:
  HostPlan(std::string op, std::span<const ArgDesc> in, std::span<const ArgDesc> out, std::unique_ptr<Plan> inner)
      : op_(std::move(op)), inner_(std::move(inner)) {
    for (const auto& arg : in) in_.push_back(bytes_of(arg));
    for (const auto& arg : out) out_.push_back(bytes_of(arg));
  }

  void run(const Launch& launch) const override {
    const cudaStream_t stream = cuda::stream_of(launch);
    refuse_capture(stream, op_);
    HostCopies host;
    std::vector<void*> in, out;
    for (std::size_t i = 0; i < in_.size(); ++i) {
      in.push_back(host.add(in_[i]));
      copy(in.back(), launch.in[i], in_[i], cudaMemcpyDeviceToHost, stream);
    }
    check_cuda(cudaStreamSynchronize(stream), "copying to the host");
    for (const std::size_t bytes : out_) out.push_back(host.add(bytes));
    RunContext context{nullptr, launch.context.comm};
    inner_->run({in.data(), out.data(), host.add(inner_->scratch_bytes), context});
    for (std::size_t i = 0; i < out_.size(); ++i) copy(launch.out[i], out[i], out_[i], cudaMemcpyHostToDevice, stream);
    check_cuda(cudaStreamSynchronize(stream), "copying to the device");
  }

 private:
  static void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    if (bytes > 0) check_cuda(cudaMemcpyAsync(to, from, bytes, kind, stream), "copying an operand");
  }

  std::string op_;
  std::unique_ptr<Plan> inner_;
  std::vector<std::size_t> in_, out_;
};

}  // namespace

Planned plan_on_host(const OpDef& op, const Attrs& attrs, std::span<const ArgDesc> in, std::span<const ArgDesc> out,
                     int threads) {
  if (kernel_table().find(op, DeviceKind::cpu).empty()) return {};
  std::vector<ArgDesc> dense_in;
  for (const auto& arg : in) dense_in.push_back(dense({arg.dtype, arg.shape}));
  Planned inner = plan_kernel(op, DeviceKind::cpu, attrs, dense_in, out, {.threads = threads});
  Planned planned;
  planned.kernel = "host";
  for (const auto& arg : in) planned.densify.push_back(!arg.contiguous());
  planned.plan = std::make_unique<HostPlan>(op.name, dense_in, out, std::move(inner.plan));
  return planned;
}

}  // namespace starling::kernels
