#include "starling/kernels/cuda/run_time_kernel.h"
#include "starling/runtime/execution/device_timer.h"
#include "starling/tensor/cuda/cuda_error.h"

namespace starling::runtime {
namespace {

// One thread that waits for 40 µs, longer than the host takes to enqueue the first kernels of an op.
constexpr const char* kWait = R"(
extern "C" __global__ void run() {
  unsigned long long begun, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
  do {
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begun < 40000);
}
)";

// Events of one timed piece; used again and again.
struct Span {
  cudaEvent_t begin = nullptr, end = nullptr;
  Span() {
    check_cuda(cudaEventCreate(&begin), "creating an event");
    check_cuda(cudaEventCreate(&end), "creating an event");
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() {
    static_cast<void>(cudaEventDestroy(begin));
    static_cast<void>(cudaEventDestroy(end));
  }
};

class CudaTimer final : public DeviceTimer {
 public:
  explicit CudaTimer(int device) : device_(device) {
    check_cuda(cudaSetDevice(device_), "choosing a device");
    wait_ = &cuda::RunTimeKernel::of(kWait);
  }

  void time(FunctionRef<void(void* stream)> enqueue) override {
    check_cuda(cudaSetDevice(device_), "choosing a device");
    if (used_ == spans_.size()) spans_.push_back(std::make_unique<Span>());
    const Span& span = *spans_[used_++];
    wait_->launch(1, 1, nullptr, cudaStreamLegacy);
    check_cuda(cudaEventRecord(span.begin, cudaStreamLegacy), "recording an event");
    enqueue(nullptr);  // the default stream
    check_cuda(cudaEventRecord(span.end, cudaStreamLegacy), "recording an event");
  }

  std::vector<std::int64_t> times() override {
    check_cuda(cudaStreamSynchronize(cudaStreamLegacy), "running a program");
    std::vector<std::int64_t> found;
    for (std::size_t i = 0; i < used_; ++i) {
      float milliseconds = 0;
      check_cuda(cudaEventElapsedTime(&milliseconds, spans_[i]->begin, spans_[i]->end), "reading an event");
      found.push_back(static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6));
    }
    used_ = 0;
    return found;
  }

 private:
  int device_;
  const cuda::RunTimeKernel* wait_ = nullptr;
  std::vector<std::unique_ptr<Span>> spans_;
  std::size_t used_ = 0;
};

}  // namespace

std::unique_ptr<DeviceTimer> make_cuda_timer(int device) { return std::make_unique<CudaTimer>(device); }

}  // namespace starling::runtime
