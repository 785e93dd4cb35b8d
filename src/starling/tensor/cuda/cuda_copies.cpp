#include "starling/tensor/bytes.h"
#include "starling/tensor/cuda/cuda_error.h"
#include "starling/tensor/device_copies.h"

namespace starling {
namespace {

// Programs run on the default stream, which waits for every stream that is not made without that.
class CopyStream {
 public:
  explicit CopyStream(int index) : index_(index) {
    use_device();
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  }
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;
  ~CopyStream() {
    if (cudaSetDevice(index_) == cudaSuccess) static_cast<void>(cudaStreamDestroy(stream_));
  }
  void use_device() const { check_cuda(cudaSetDevice(index_), "choosing a device"); }
  int index() const { return index_; }
  cudaStream_t stream() const { return stream_; }

 private:
  int index_;
  cudaStream_t stream_ = nullptr;
};

class CudaMark final : public DeviceMark {
 public:
  explicit CudaMark(std::shared_ptr<CopyStream> copies) : copies_(std::move(copies)) {
    copies_->use_device();
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "creating an event");
  }
  CudaMark(const CudaMark&) = delete;
  CudaMark& operator=(const CudaMark&) = delete;
  ~CudaMark() override {
    if (cudaSetDevice(copies_->index()) == cudaSuccess) static_cast<void>(cudaEventDestroy(event_));
  }

  void set_after_copies() override { set(copies_->stream()); }
  void set_after_programs() override { set(cudaStreamLegacy); }
  void copies_wait() override { behind(copies_->stream()); }
  void programs_wait() override { behind(cudaStreamLegacy); }
  bool passed() override {
    copies_->use_device();
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    check_cuda(status, "looking at an event");
    return true;
  }
  void wait() override {
    copies_->use_device();
    check_cuda(cudaEventSynchronize(event_), "waiting for an event");
  }

 private:
  void set(cudaStream_t stream) {
    copies_->use_device();
    check_cuda(cudaEventRecord(event_, stream), "recording an event");
  }
  void behind(cudaStream_t stream) {
    copies_->use_device();
    check_cuda(cudaStreamWaitEvent(stream, event_, 0), "waiting for an event");
  }

  std::shared_ptr<CopyStream> copies_;
  cudaEvent_t event_ = nullptr;
};

class CudaCopies final : public DeviceCopies {
 public:
  explicit CudaCopies(int index) : stream_(std::make_shared<CopyStream>(index)) {}

  Device device() const override { return {DeviceKind::cuda, static_cast<std::uint8_t>(stream_->index())}; }

  // Freed by destructors, possibly after driver shutdown: failures are ignored then.
  Tensor pinned(const Shape& shape, DType dtype) override {
    stream_->use_device();
    const std::size_t bytes = bytes_of(shape, dtype);
    void* data = nullptr;
    check_cuda(cudaHostAlloc(&data, bytes > 0 ? bytes : 1, cudaHostAllocPortable), "allocating pinned memory");
    const auto release = [](void* memory) { static_cast<void>(cudaFreeHost(memory)); };
    return from_storage(Ref<Storage>(new Storage(kCpu, data, bytes, release, false)), dtype, shape);
  }

  void to_device(void* device, const void* pinned, std::size_t bytes) override {
    copy(device, pinned, bytes, cudaMemcpyHostToDevice, stream_->stream());
  }
  void to_host(void* pinned, const void* device, std::size_t bytes) override {
    copy(pinned, device, bytes, cudaMemcpyDeviceToHost, cudaStreamLegacy);
  }
  std::unique_ptr<DeviceMark> mark() override { return std::make_unique<CudaMark>(stream_); }

 private:
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) const {
    if (bytes == 0) return;
    stream_->use_device();
    check_cuda(cudaMemcpyAsync(to, from, bytes, kind, stream), "enqueuing a copy");
  }

  std::shared_ptr<CopyStream> stream_;
};

}  // namespace

std::shared_ptr<DeviceCopies> make_cuda_copies(int index) { return std::make_shared<CudaCopies>(index); }

}  // namespace starling
