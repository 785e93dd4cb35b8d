#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "starling/kernels/cpu/conv/conv_shape.h"
#include "starling/kernels/cpu/conv/phased_planes.h"

namespace starling::kernels {

// Depthwise convolution in f32: every input channel is its own group, with any number of outputs per channel. Made when
// a kernel is planned; running allocates nothing, scratch is 64-byte aligned. Threads share out channels; the bits do
// not depend on their number.
class DepthwiseConv {
 public:
  static bool takes(const Conv2dShape& shape);
  DepthwiseConv(const Conv2dShape& shape, int threads);

  std::size_t scratch_bytes() const { return static_cast<std::size_t>(per_thread_ * threads_) * sizeof(float); }

  // y = conv(x, w) + bias, with an optional relu; bias may be null.
  void forward(const float* x, const float* w, const float* bias, bool relu, float* y, void* scratch) const;
  void backward_data(const float* dy, const float* w, float* dx, void* scratch) const;
  void backward_weight(const float* x, const float* dy, float* dw, void* scratch) const;

 private:
  struct Memory {
    float* image;  // phased planes; one set per channel, image_ apart
    float* line;   // outputs, or a gradient after a margin of zeros; one per channel, line_ apart
    float* sums;   // weight gradients, or the weights reordered by phase
  };
  Memory carve(void* scratch, int thread) const;
  void clear(const Memory& memory) const;
  template <class Body>
  void share_channels(const Body& body) const;
  void sum_planes(const float* w, const float* gradient, bool accumulate, float* weights, float* image) const;
  void load_gradient(const float* plane, float* line) const;

  Conv2dShape s_;
  PhasedPlanes planes_;
  int threads_ = 1;
  std::int64_t count_;     // elements of an output plane, with rows at the planes' pitch
  std::int64_t together_;  // channels copied before the first is used, so that its stores have completed
  std::int64_t margin_;    // zeros before a gradient
  std::int64_t image_, line_, sums_, per_thread_;  // floats
  std::vector<std::int64_t> offsets_;              // offset of each tap within the image's planes
  // Taps grouped by phase (remainder by the stride): start of each phase, tap numbers, and how far back each tap reads
  // a gradient.
  std::vector<std::int64_t> first_, order_, back_;
};

}  // namespace starling::kernels
