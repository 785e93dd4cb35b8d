#pragma once

#include <cstddef>
#include <cstdint>

#include "starling/kernels/cpu/gemm/gemm.h"
#include "starling/ops/def/conv_geometry.h"

namespace starling::kernels {

// Output positions [begin, end) of an image, counted row by row.
struct PositionRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// im2col: columns[(channel, tap), positions], rows ld apart, from the first `channels` channels of an image [c, d, h,
// w].
template <class T>
void volume_to_columns(const ConvGeometry& g, std::int64_t channels, const T* image, PositionRange at, T* columns,
                       std::int64_t ld);
// col2im: adds columns to the image they came from.
template <class T>
void add_columns_to_volume(const ConvGeometry& g, std::int64_t channels, const T* columns, std::int64_t ld,
                           PositionRange at, T* image);

// Fallback convolution in one to three dimensions, in f32 or f64: products of the weights with the columns of a range
// of positions that stays in cache. Threads share out images and ranges; the same geometry, threads and data give the
// same bits. Allocates nothing; scratch is 64-byte aligned. T: float, double.
template <class T>
class ColumnConv {
 public:
  enum class Pass { forward, data, weight };
  ColumnConv(const ConvGeometry& geometry, Pass pass, int threads);

  std::size_t scratch_bytes() const { return scratch_bytes_; }

  // y = activation(conv(x, w) + bias); bias may be null.
  void forward(const T* x, const T* w, const T* bias, GemmActivation activation, T* y, void* scratch) const;
  void backward_data(const T* dy, const T* w, T* dx, void* scratch) const;
  void backward_weight(const T* x, const T* dy, T* dw, void* scratch) const;

 private:
  struct Memory {
    char* product;  // one piece per thread, for each member
    T* columns;
    T* sums;
  };
  Memory carve(void* scratch) const;
  GemmPlan plan_range(std::int64_t positions) const;
  PositionRange range(std::int64_t index) const;
  const GemmPlan& plan_of(std::int64_t index) const { return index + 1 < ranges_ ? whole_ : last_; }
  void* product_scratch(const Memory& memory, int thread) const {
    return memory.product + static_cast<std::size_t>(thread) * product_bytes_;
  }

  ConvGeometry g_;
  Pass pass_;
  bool direct_;  // 1 × 1 at stride 1: the image itself is the column matrix
  std::int64_t width_ = 0;
  std::int64_t ranges_ = 1;
  int threads_ = 1;
  GemmPlan whole_, last_;
  std::size_t product_bytes_ = 0;
  std::int64_t columns_count_ = 0;
  std::int64_t sums_count_ = 0;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace starling::kernels
