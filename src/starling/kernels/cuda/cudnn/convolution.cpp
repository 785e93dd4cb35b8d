#include "starling/kernels/cuda/convolution.h"

#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <span>

#include "starling/kernels/cuda/cudnn/descriptors.h"

// The functions named by algorithm, which take what the graph gives without a translation, are marked deprecated.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace starling::cuda {
namespace {

using namespace cudnn;  // NOLINT(google-build-using-namespace)

// The three passes: how algorithms are found and run.
struct Forward {
  using Perf = cudnnConvolutionFwdAlgoPerf_t;
  static cudnnStatus_t find(cudnnHandle_t handle, const Descriptors& d, int* found, Perf* perf) {
    return cudnnGetConvolutionForwardAlgorithm_v7(handle, d.x, d.w, d.conv, d.y, kMostAlgorithms, found, perf);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, const Perf& best, const void* x, const void* w,
                           void* y, void* scratch) {
    const float one = 1, zero = 0;
    return cudnnConvolutionForward(handle, &one, d.x, x, d.w, w, d.conv, best.algo, scratch, best.memory, &zero, d.y,
                                   y);
  }
  static void try_on(const Convolution& conv, const Trial& t, cudaStream_t stream) {
    conv.run(t.x.data(), t.w.data(), t.y.data(), t.scratch.data(), stream);
  }
};

struct Input {
  using Perf = cudnnConvolutionBwdDataAlgoPerf_t;
  static cudnnStatus_t find(cudnnHandle_t handle, const Descriptors& d, int* found, Perf* perf) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, d.w, d.y, d.conv, d.x, kMostAlgorithms, found, perf);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, const Perf& best, const void* dy, const void* w,
                           void* dx, void* scratch) {
    const float one = 1, zero = 0;
    return cudnnConvolutionBackwardData(handle, &one, d.w, w, d.y, dy, d.conv, best.algo, scratch, best.memory, &zero,
                                        d.x, dx);
  }
  static void try_on(const Convolution& conv, const Trial& t, cudaStream_t stream) {
    conv.run(t.y.data(), t.w.data(), t.x.data(), t.scratch.data(), stream);
  }
};

struct Weight {
  using Perf = cudnnConvolutionBwdFilterAlgoPerf_t;
  static cudnnStatus_t find(cudnnHandle_t handle, const Descriptors& d, int* found, Perf* perf) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, d.x, d.y, d.conv, d.w, kMostAlgorithms, found, perf);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, const Perf& best, const void* dy, const void* x,
                           void* dw, void* scratch) {
    const float one = 1, zero = 0;
    return cudnnConvolutionBackwardFilter(handle, &one, d.x, x, d.y, dy, d.conv, best.algo, scratch, best.memory, &zero,
                                          d.w, dw);
  }
  static void try_on(const Convolution& conv, const Trial& t, cudaStream_t stream) {
    conv.run(t.y.data(), t.x.data(), t.w.data(), t.scratch.data(), stream);
  }
};

template <class Pass>
class Chosen final : public Convolution {
 public:
  // Null if cuDNN has no algorithm for it.
  static std::shared_ptr<const Convolution> of(const device::Conv& conv, ConvStorage storage) {
    auto made = std::make_shared<Chosen>(conv, storage);
    return made->choose(conv) ? made : nullptr;
  }
  Chosen(const device::Conv& conv, ConvStorage storage) : descriptors_(conv, storage) {
    const auto math = storage.dtype == DType::f32 ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;
    check_cudnn(cudnnSetConvolutionMathType(descriptors_.conv, math), "describing a convolution");
  }

  void run(const void* first, const void* second, void* result, void* scratch, cudaStream_t stream) const override {
    check_cudnn(LibraryHandle::shared().with(stream,
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
    const cudnnStatus_t status = LibraryHandle::shared().with(
        cudaStreamLegacy, [&](cudnnHandle_t handle) { return Pass::find(handle, descriptors_, &found, perf); });
    if (status != CUDNN_STATUS_SUCCESS) return false;
    // Algorithms that give the same bits every time go before all others.
    return choose(trial, {perf, static_cast<std::size_t>(found)}, true) ||
           choose(trial, {perf, static_cast<std::size_t>(found)}, false);
  }

  // The fastest of the first of these, which the library takes to be the best, by replays. An algorithm that cannot run
  // after all is left out.
  bool choose(const Trial& trial, std::span<const typename Pass::Perf> found, bool same_bits) {
    float least = std::numeric_limits<float>::infinity();
    typename Pass::Perf fastest{};
    int tried = 0;
    for (const auto& one : found) {
      if (one.status != CUDNN_STATUS_SUCCESS || (same_bits && one.determinism != CUDNN_DETERMINISTIC)) continue;
      if (one.memory > kMostScratch || tried == kMostTried) continue;
      try {
        use(one);
        const float ms = time_on_device([&](cudaStream_t stream) { Pass::try_on(*this, trial, stream); });
        if (ms < least) least = ms, fastest = one;
        ++tried;
      } catch (const Error&) {
        static_cast<void>(cudaGetLastError());
      }
    }
    if (!(least < std::numeric_limits<float>::infinity())) return false;
    use(fastest);
    milliseconds = least;
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

std::shared_ptr<const Convolution> chosen(ConvPass pass, const device::Conv& conv, ConvStorage storage) {
  try {
    switch (pass) {
      case ConvPass::forward: return Chosen<Forward>::of(conv, storage);
      case ConvPass::input: return Chosen<Input>::of(conv, storage);
      case ConvPass::weight: return Chosen<Weight>::of(conv, storage);
    }
  } catch (const Error&) {  // sizes that cuDNN does not take: other kernels do
    static_cast<void>(cudaGetLastError());
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<const Convolution> cudnn_convolution(ConvPass pass, const device::Conv& conv, ConvStorage storage) {
  using Key = std::array<int, sizeof(device::Conv) / sizeof(int) + 3>;
  Key key{static_cast<int>(pass), static_cast<int>(storage.dtype), storage.channels_last};
  std::memcpy(key.data() + 3, &conv, sizeof(conv));
  static std::mutex mutex;
  static auto& known = *new std::map<Key, std::shared_ptr<const Convolution>>;
  const std::lock_guard lock(mutex);
  const auto [slot, fresh] = known.try_emplace(key);
  if (fresh) slot->second = chosen(pass, conv, storage);
  return slot->second;
}

int cudnn_version() { return static_cast<int>(cudnnGetVersion()); }

}  // namespace starling::cuda
