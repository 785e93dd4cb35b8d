#include "starling/kernels/cuda/convolution.h"

#include <cudnn.h>

#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "starling/kernels/cuda/stopwatch.h"
#include "starling/kernels/cuda/stream.h"

// The functions named by algorithm, which take what the graph gives without a translation, are marked deprecated.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace starling::cuda {
namespace {

void check_cudnn(cudnnStatus_t status, const char* what) {
  check(status == CUDNN_STATUS_SUCCESS, "[cuda] expected {} to succeed, got {}", what, cudnnGetErrorString(status));
}

// One handle for the process, bound to a stream for each call: a call only enqueues.
class Handle {
 public:
  static Handle& shared() {
    static auto& handle = *new Handle;
    return handle;
  }
  template <class Use>
  auto with(cudaStream_t stream, Use&& use) {
    const std::lock_guard lock(mutex_);
    check_cudnn(cudnnSetStream(handle_, stream), "choosing a stream");
    return use(handle_);
  }

 private:
  Handle() { check_cudnn(cudnnCreate(&handle_), "starting cuDNN"); }
  cudnnHandle_t handle_ = nullptr;
  std::mutex mutex_;
};

// Descriptors of one convolution; flat ones in two dimensions, which cuDNN has more kernels for.
class Descriptors {
 public:
  explicit Descriptors(const device::Conv& c) {
    check_cudnn(cudnnCreateTensorDescriptor(&x), "describing a convolution");
    check_cudnn(cudnnCreateTensorDescriptor(&y), "describing a convolution");
    check_cudnn(cudnnCreateFilterDescriptor(&w), "describing a convolution");
    check_cudnn(cudnnCreateConvolutionDescriptor(&conv), "describing a convolution");
    const bool flat = c.x[0] == 1 && c.k[0] == 1 && c.y[0] == 1 && c.padding[0] == 0;
    const int skipped = flat ? 1 : 0;
    describe(x, c.n, c.c, c.x, skipped);
    describe(y, c.n, c.o, c.y, skipped);
    std::vector<int> taps{c.o, c.c / c.groups};
    for (int d = skipped; d < 3; ++d) taps.push_back(c.k[d]);
    check_cudnn(
        cudnnSetFilterNdDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, static_cast<int>(taps.size()), taps.data()),
        "describing a convolution");
    check_cudnn(cudnnSetConvolutionNdDescriptor(conv, 3 - skipped, c.padding + skipped, c.stride + skipped,
                                                c.dilation + skipped, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                "describing a convolution");
    check_cudnn(cudnnSetConvolutionGroupCount(conv, c.groups), "describing a convolution");
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  ~Descriptors() {
    cudnnDestroyTensorDescriptor(x);
    cudnnDestroyTensorDescriptor(y);
    cudnnDestroyFilterDescriptor(w);
    cudnnDestroyConvolutionDescriptor(conv);
  }

  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;

 private:
  static void describe(cudnnTensorDescriptor_t tensor, int n, int channels, const int (&size)[3], int skipped) {
    std::vector<int> sizes{n, channels};
    for (int d = skipped; d < 3; ++d) sizes.push_back(size[d]);
    std::vector<int> strides(sizes.size(), 1);
    for (std::size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
    check_cudnn(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, static_cast<int>(sizes.size()), sizes.data(),
                                           strides.data()),
                "describing a convolution");
  }
};

constexpr std::size_t kMostScratch = std::size_t{1} << 30;
constexpr int kMostAlgorithms = 8;

struct Trial {
  TrialMemory x, w, y, scratch{library_scratch(kMostScratch)};
  static std::size_t bytes(long long a, long long b, const int (&size)[3]) {
    return static_cast<std::size_t>(a * b * size[0] * size[1] * size[2]) * sizeof(float);
  }
  explicit Trial(const device::Conv& c)
      : x(bytes(c.n, c.c, c.x)), w(bytes(c.o, c.c / c.groups, c.k)), y(bytes(c.n, c.o, c.y)) {}
};

float* at(const TrialMemory& memory) { return static_cast<float*>(memory.data()); }

// The three passes: how algorithms are found and run.
struct Forward {
  using Perf = cudnnConvolutionFwdAlgoPerf_t;
  static cudnnStatus_t find(cudnnHandle_t handle, const Descriptors& d, const Trial& t, int* found, Perf* perf) {
    return cudnnFindConvolutionForwardAlgorithmEx(handle, d.x, t.x.data(), d.w, t.w.data(), d.conv, d.y, t.y.data(),
                                                  kMostAlgorithms, found, perf, t.scratch.data(), kMostScratch);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, const Perf& best, const float* x, const float* w,
                           float* y, void* scratch) {
    const float one = 1, zero = 0;
    return cudnnConvolutionForward(handle, &one, d.x, x, d.w, w, d.conv, best.algo, scratch, best.memory, &zero, d.y,
                                   y);
  }
  static void try_on(const Convolution& conv, const Trial& t, cudaStream_t stream) {
    conv.run(at(t.x), at(t.w), at(t.y), t.scratch.data(), stream);
  }
};

struct Input {
  using Perf = cudnnConvolutionBwdDataAlgoPerf_t;
  static cudnnStatus_t find(cudnnHandle_t handle, const Descriptors& d, const Trial& t, int* found, Perf* perf) {
    return cudnnFindConvolutionBackwardDataAlgorithmEx(handle, d.w, t.w.data(), d.y, t.y.data(), d.conv, d.x,
                                                       t.x.data(), kMostAlgorithms, found, perf, t.scratch.data(),
                                                       kMostScratch);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, const Perf& best, const float* dy,
                           const float* w, float* dx, void* scratch) {
    const float one = 1, zero = 0;
    return cudnnConvolutionBackwardData(handle, &one, d.w, w, d.y, dy, d.conv, best.algo, scratch, best.memory, &zero,
                                        d.x, dx);
  }
  static void try_on(const Convolution& conv, const Trial& t, cudaStream_t stream) {
    conv.run(at(t.y), at(t.w), at(t.x), t.scratch.data(), stream);
  }
};

struct Weight {
  using Perf = cudnnConvolutionBwdFilterAlgoPerf_t;
  static cudnnStatus_t find(cudnnHandle_t handle, const Descriptors& d, const Trial& t, int* found, Perf* perf) {
    return cudnnFindConvolutionBackwardFilterAlgorithmEx(handle, d.x, t.x.data(), d.y, t.y.data(), d.conv, d.w,
                                                         t.w.data(), kMostAlgorithms, found, perf, t.scratch.data(),
                                                         kMostScratch);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, const Perf& best, const float* dy,
                           const float* x, float* dw, void* scratch) {
    const float one = 1, zero = 0;
    return cudnnConvolutionBackwardFilter(handle, &one, d.x, x, d.y, dy, d.conv, best.algo, scratch, best.memory, &zero,
                                          d.w, dw);
  }
  static void try_on(const Convolution& conv, const Trial& t, cudaStream_t stream) {
    conv.run(at(t.y), at(t.x), at(t.w), t.scratch.data(), stream);
  }
};

template <class Pass>
class Chosen final : public Convolution {
 public:
  // Null if cuDNN has no algorithm for it.
  static std::shared_ptr<const Convolution> of(const device::Conv& conv) {
    auto made = std::make_shared<Chosen>(conv);
    return made->choose(conv) ? made : nullptr;
  }
  explicit Chosen(const device::Conv& conv) : descriptors_(conv) {}

  void run(const float* first, const float* second, float* result, void* scratch, cudaStream_t stream) const override {
    check_cudnn(Handle::shared().with(stream,
                                      [&](cudnnHandle_t handle) {
                                        return Pass::run(handle, descriptors_, best_, first, second, result,
                                                         library_aligned(scratch));
                                      }),
                "launching a convolution");
  }

 private:
  bool choose(const device::Conv& conv) {
    const Trial trial(conv);
    typename Pass::Perf perf[kMostAlgorithms];
    int found = 0;
    const cudnnStatus_t status = Handle::shared().with(
        cudaStreamLegacy, [&](cudnnHandle_t handle) { return Pass::find(handle, descriptors_, trial, &found, perf); });
    if (status != CUDNN_STATUS_SUCCESS) return false;
    // Those that give the same bits every time go before all others.
    return choose(trial, {perf, static_cast<std::size_t>(found)}, true) ||
           choose(trial, {perf, static_cast<std::size_t>(found)}, false);
  }

  // The fastest of these by replays, which tell short kernels apart better than the library's single runs.
  bool choose(const Trial& trial, std::span<const typename Pass::Perf> found, bool same_bits) {
    float least = std::numeric_limits<float>::infinity();
    typename Pass::Perf fastest{};
    for (const auto& one : found) {
      if (one.status != CUDNN_STATUS_SUCCESS || (same_bits && one.determinism != CUDNN_DETERMINISTIC)) continue;
      use(one);
      const float ms = time_on_device([&](cudaStream_t stream) { Pass::try_on(*this, trial, stream); });
      if (ms < least) least = ms, fastest = one;
    }
    if (!(least < std::numeric_limits<float>::infinity())) return false;
    use(fastest);
    return true;
  }

  void use(const typename Pass::Perf& one) {
    best_ = one;
    scratch_bytes = library_scratch(one.memory);
    check_cudnn(cudnnSetConvolutionMathType(descriptors_.conv, one.mathType), "describing a convolution");
  }

  Descriptors descriptors_;
  typename Pass::Perf best_{};
};

std::shared_ptr<const Convolution> chosen(ConvPass pass, const device::Conv& conv) {
  try {
    switch (pass) {
      case ConvPass::forward: return Chosen<Forward>::of(conv);
      case ConvPass::input: return Chosen<Input>::of(conv);
      case ConvPass::weight: return Chosen<Weight>::of(conv);
    }
  } catch (const Error&) {  // sizes that cuDNN does not take: other kernels do
    static_cast<void>(cudaGetLastError());
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<const Convolution> cudnn_convolution(ConvPass pass, const device::Conv& conv) {
  using Key = std::array<int, sizeof(device::Conv) / sizeof(int) + 1>;
  Key key{static_cast<int>(pass)};
  std::memcpy(key.data() + 1, &conv, sizeof(conv));
  static std::mutex mutex;
  static auto& known = *new std::map<Key, std::shared_ptr<const Convolution>>;
  const std::lock_guard lock(mutex);
  const auto [slot, fresh] = known.try_emplace(key);
  if (fresh) slot->second = chosen(pass, conv);
  return slot->second;
}

}  // namespace starling::cuda
