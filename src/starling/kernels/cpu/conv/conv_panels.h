#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "starling/kernels/cpu/conv/conv_shape.h"
#include "starling/kernels/cpu/conv/panel_rows.h"
#include "starling/kernels/cpu/conv/phased_planes.h"
#include "starling/kernels/cpu/gemm/gemm.h"

namespace starling::kernels {

// Convolution in f32 as products with packed panels of 64 positions, which may span several images, so that small
// images waste no lanes. Panels are gathered from padded images (phased_planes.h), or from the operand itself where
// there is neither padding nor stride. Made when a kernel is planned; running allocates nothing, scratch is 64-byte
// aligned. Threads share out images; the same shape, threads and data give the same bits.
class PanelConv {
 public:
  enum class Pass { forward, data, weight };
  static bool takes(const Conv2dShape& shape, Pass pass, int threads);
  PanelConv(const Conv2dShape& shape, Pass pass, int threads);

  std::size_t scratch_bytes() const {
    return static_cast<std::size_t>(weights_count_ + per_thread_ * threads_) * sizeof(float);
  }

  // y = conv(x, w) + bias, with an optional relu; bias may be null.
  void forward(const float* x, const float* w, const float* bias, bool relu, float* y, void* scratch) const;
  void backward_data(const float* dy, const float* w, float* dx, void* scratch) const;
  // Each thread sums its images separately; the sums are added in thread order.
  void backward_weight(const float* x, const float* dy, float* dw, void* scratch) const;

 private:
  struct Memory {
    float *images, *panel, *results, *product;
  };
  using Runs = std::span<const PanelRun>;
  Memory carve(void* scratch, int thread) const;
  GemmPlan plan(std::int64_t width, std::int64_t rows) const;
  GemmPlan plan_weight(std::int64_t positions, std::int64_t taps) const;
  const float* load_images(const float* x, std::int64_t first, std::int64_t images, const Memory& memory) const;
  void add_sums(const void* scratch, float* dw) const;
  std::int64_t blocks() const { return (s_.taps() + block_ - 1) / block_; }
  std::span<const std::int64_t> block_offsets(std::int64_t block) const;
  const GemmPlan& plan_of(std::int64_t width, std::int64_t block) const {
    return plans_[block + 1 < blocks() ? 0 : 1][(width - 1) / 16];
  }
  // Contiguous runs of positions [begin, end) over images of `image` floats with rows `pitch` apart.
  Runs find_runs(std::int64_t begin, std::int64_t end, std::int64_t image, std::int64_t pitch, PanelRun* runs) const;
  template <class Body>
  void share_groups(const Body& body) const;

  Conv2dShape s_;
  Pass pass_;
  bool direct_;
  PhasedPlanes planes_;
  int threads_;
  std::int64_t group_ = 1;  // images padded together
  std::int64_t block_ = 0;  // taps packed per panel
  std::int64_t image_ = 0, pitch_ = 0;
  std::vector<std::int64_t> offsets_;   // offsets of the taps in an image
  std::vector<std::int64_t> channels_;  // offsets of the channels of dy
  GemmPlan plans_[2][4];                // whole and last block of taps, by panel width
  std::int64_t weights_count_ = 0;      // transposed weights of the backward pass
  std::int64_t images_count_ = 0, panel_count_ = 0, results_count_ = 0, product_count_ = 0, per_thread_ = 0;
};

}  // namespace starling::kernels
