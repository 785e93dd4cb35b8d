#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>

#include "starling/dist/comm/gpu/cuda/reduce_memory.h"
#include "starling/dist/comm/gpu/device_reach.h"
#include "starling/tensor/allocator.h"
#include "starling/tensor/cuda/cuda_error.h"

namespace starling::dist {
namespace {

static_assert(static_cast<int>(DType::f64) == 0 && static_cast<int>(DType::f32) == 1 &&
              static_cast<int>(DType::f16) == 2 && static_cast<int>(DType::bf16) == 3 &&
              static_cast<int>(DType::i64) == 4 && static_cast<int>(DType::i8) == 7 &&
              static_cast<int>(DType::u64) == 8 && static_cast<int>(DType::u8) == 11 &&
              static_cast<int>(DType::boolean) == 12);
static_assert(DeviceReach::kMostSources <= cuda::kMostReduced);
static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(ExportedMemory::handle));

// Reductions in the order of reduce_memory.
int number_of(ReduceOp reduce) {
  switch (reduce) {
    case ReduceOp::sum: return 0;
    case ReduceOp::mean: return 1;
    case ReduceOp::product: return 2;
    case ReduceOp::max: return 3;
    case ReduceOp::min: return 4;
  }
  return -1;
}

// Functions of the driver, which programs are not linked against: a machine without a GPU has none.
struct Driver {
  decltype(&cuMemGetAddressRange) address_range = nullptr;
  decltype(&cuPointerGetAttribute) attribute = nullptr;

  Driver() {
    const auto find = [](const char* name) {
      void* found = nullptr;
      cudaDriverEntryPointQueryResult result{};
      check_cuda(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result),
                 "finding the driver");
      check(found != nullptr, "[ipc] expected the driver's {}, got none", name);
      return found;
    };
    address_range = reinterpret_cast<decltype(address_range)>(find("cuMemGetAddressRange"));
    attribute = reinterpret_cast<decltype(attribute)>(find("cuPointerGetAttribute"));
  }
};

const Driver& driver() {
  static const Driver found;
  return found;
}

class CudaReach final : public DeviceReach {
 public:
  explicit CudaReach(int device) : device_(device) {
    use_device();
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  }
  CudaReach(const CudaReach&) = delete;
  CudaReach& operator=(const CudaReach&) = delete;
  ~CudaReach() override {
    drain();
    static_cast<void>(cudaStreamDestroy(stream_));
  }

  void* allocate(std::size_t bytes) override { return memory().allocate(bytes); }
  void free(void* data, std::size_t bytes) override { memory().deallocate(data, bytes); }

  ExportedMemory export_memory(const void* data) override {
    use_device();
    const auto at = reinterpret_cast<CUdeviceptr>(data);
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    ExportedMemory made;
    check(driver().address_range(&base, &bytes, at) == CUDA_SUCCESS,
          "[ipc] expected memory of a GPU to exchange, got {:#x}", at);
    unsigned long long number = 0;
    check(driver().attribute(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID, base) == CUDA_SUCCESS,
          "[ipc] expected an allocation with a number, got {:#x} without", at);
    cudaIpcMemHandle_t handle;
    check_cuda(cudaIpcGetMemHandle(&handle, reinterpret_cast<void*>(base)), "sharing device memory (CUDA IPC)");
    std::memcpy(made.handle.data(), &handle, sizeof(handle));
    made.allocation = number;
    made.offset = at - base;
    made.address = at;
    return made;
  }
  void* open(const ExportedMemory& memory) override {
    use_device();
    cudaIpcMemHandle_t handle;
    std::memcpy(&handle, memory.handle.data(), sizeof(handle));
    void* data = nullptr;
    const cudaError_t status = cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
    check_cuda(status, "opening another process' device memory (CUDA IPC)");
    return data;
  }
  void close(void* allocation) override { static_cast<void>(cudaIpcCloseMemHandle(allocation)); }

  void await_producers() override {
    use_device();
    check_cuda(cudaStreamSynchronize(cudaStreamLegacy), "running a program");
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    use_device();
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "copying from another rank");
  }
  void reduce(DType dtype, ReduceOp reduce, std::span<const void* const> sources, void* out,
              std::int64_t count) override {
    use_device();
    cuda::ReducedSources all{};
    all.count = static_cast<int>(sources.size());
    std::copy(sources.begin(), sources.end(), all.at);
    check_cuda(cuda::reduce_memory(static_cast<int>(dtype), number_of(reduce), all, out, count, stream_),
               "reducing the memory of all ranks");
  }

  Mark mark() override {
    use_device();
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
    Mark made(event, [](void* old) { static_cast<void>(cudaEventDestroy(static_cast<cudaEvent_t>(old))); });
    check_cuda(cudaEventRecord(event, stream_), "recording an event");
    return made;
  }
  bool passed(const Mark& mark) override {
    const cudaError_t status = cudaEventQuery(static_cast<cudaEvent_t>(mark.get()));
    if (status == cudaErrorNotReady) return false;
    check_cuda(status, "exchanging device memory");
    return true;
  }
  void drain() noexcept override { static_cast<void>(cudaStreamSynchronize(stream_)); }

 private:
  Allocator& memory() const {
    return allocator({.kind = DeviceKind::cuda, .index = static_cast<std::uint8_t>(device_)});
  }
  void use_device() const { check_cuda(cudaSetDevice(device_), "choosing a device"); }

  int device_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

std::shared_ptr<DeviceReach> make_cuda_reach(int device) { return std::make_shared<CudaReach>(device); }

}  // namespace starling::dist
