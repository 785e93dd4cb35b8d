#pragma once

#include <cudnn.h>

#include <vector>

#include "starling/kernels/cuda/convolution.h"
#include "starling/kernels/cuda/cudnn/handle.h"
#include "starling/kernels/cuda/stopwatch.h"
#include "starling/kernels/cuda/stream.h"

// Shared by the files of convolutions.
namespace starling::cuda::cudnn {

// Descriptors of one convolution; flat ones in two dimensions, which cuDNN has more kernels for.
class Descriptors {
 public:
  Descriptors(const device::Conv& c, ConvStorage storage) : storage_(storage) {
    check_cudnn(cudnnCreateTensorDescriptor(&x), "describing a convolution");
    check_cudnn(cudnnCreateTensorDescriptor(&y), "describing a convolution");
    check_cudnn(cudnnCreateFilterDescriptor(&w), "describing a convolution");
    check_cudnn(cudnnCreateConvolutionDescriptor(&conv), "describing a convolution");
    const int skipped = is_flat(c) ? 1 : 0;
    describe(x, c.n, c.c, c.x, skipped);
    describe(y, c.n, c.o, c.y, skipped);
    std::vector<int> taps{c.o, c.c / c.groups};
    for (int d = skipped; d < 3; ++d) taps.push_back(c.k[d]);
    check_cudnn(cudnnSetFilterNdDescriptor(w, library_type(storage.dtype),
                                           storage.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                           static_cast<int>(taps.size()), taps.data()),
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

  static bool is_flat(const device::Conv& c) { return c.x[0] == 1 && c.k[0] == 1 && c.y[0] == 1 && c.padding[0] == 0; }

  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;

 private:
  void describe(cudnnTensorDescriptor_t tensor, int n, int channels, const int (&size)[3], int skipped) const {
    std::vector<int> sizes{n, channels};
    for (int d = skipped; d < 3; ++d) sizes.push_back(size[d]);
    std::vector<int> strides(sizes.size(), 1);
    for (std::size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
    if (storage_.channels_last) {
      for (std::size_t d = 2; d < sizes.size(); ++d) strides[d] *= channels;
      strides[1] = 1;
    }
    check_cudnn(cudnnSetTensorNdDescriptor(tensor, library_type(storage_.dtype), static_cast<int>(sizes.size()),
                                           sizes.data(), strides.data()),
                "describing a convolution");
  }
  ConvStorage storage_;
};

inline constexpr std::size_t kMostScratch = std::size_t{1} << 30;
inline constexpr int kMostAlgorithms = 8;
inline constexpr int kMostTried = 3;

// Memory that a convolution is tried on.
struct Trial {
  TrialMemory x, w, y, scratch{library_scratch(kMostScratch)};
  static std::size_t bytes(long long a, long long b, const int (&size)[3]) {
    return static_cast<std::size_t>(a * b * size[0] * size[1] * size[2]) * sizeof(float);
  }
  explicit Trial(const device::Conv& c)
      : x(bytes(c.n, c.c, c.x)), w(bytes(c.o, c.c / c.groups, c.k)), y(bytes(c.n, c.o, c.y)) {}
};

}  // namespace starling::cuda::cudnn
