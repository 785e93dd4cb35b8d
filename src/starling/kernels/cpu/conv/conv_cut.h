#pragma once

#include <cstddef>
#include <cstdint>

#include "starling/base/parallel.h"
#include "starling/base/round_up.h"
#include "starling/kernels/cpu/conv/conv_shape.h"

namespace starling::kernels {

// Partition of a convolution: images into bands of output rows whose taps stay in cache, and the work into threads.
// Internal to the convolution kernels.

// Throws on inconsistent sizes.
void check_conv2d(const Conv2dShape& shape);

constexpr std::int64_t kConvLanes = 16;

inline std::int64_t whole_lanes(std::int64_t count) { return (count + kConvLanes - 1) / kConvLanes * kConvLanes; }

// True if the taps of all kernel rows are one set of planes (channel, kw), read at different rows (vertical stride 1):
// they are gathered once instead of kernel_h times.
inline bool shares_rows(const Conv2dShape& s) { return s.stride_h == 1 && s.kernel_h > 1; }

// Convolution whose tap matrix is those planes: one kernel row, and output rows for all padded input rows.
Conv2dShape planes_of(const Conv2dShape& shape);

struct ConvCut {
  std::int64_t band_rows = 1;
  std::int64_t bands = 1;
  std::int64_t halo = 0;  // rows of a band's planes beyond its output rows
  int threads = 1;

  RowRange band(const Conv2dShape& s, std::int64_t index) const;
  RowRange with_halo(RowRange band) const { return {band.begin, band.end + halo}; }
  std::int64_t band_positions(const Conv2dShape& s, std::int64_t index) const;
  // Row stride of the tap matrix of a band's planes.
  std::int64_t plane_ld(const Conv2dShape& s) const { return whole_lanes((band_rows + halo) * s.out_w()); }
};

// Chooses bands and threads. row_floats: floats of the tap matrix per row of a band (and of its halo). share_bands:
// threads may work on different bands of one image.
ConvCut cut_conv2d(const Conv2dShape& shape, std::int64_t row_floats, std::int64_t halo, int threads, bool share_bands);

// Offsets of row (channel, kh, kw) of the tap matrix within the planes (or within the plain matrix, rows ld apart).
void fill_tap_table(const Conv2dShape& shape, std::int64_t ld, std::int64_t* table);

// Splits [0, tasks) into one piece per thread and calls body(thread, task) for each task.
template <class Body>
void share_tasks(std::int64_t tasks, int threads, const Body& body) {
  parallel_run(threads, [&](int thread) {
    for (std::int64_t t = tasks * thread / threads; t < tasks * (thread + 1) / threads; ++t) body(thread, t);
  });
}

// Bump allocator of 64-byte aligned pieces in scratch; with a null base it only counts.
class ScratchCarver {
 public:
  explicit ScratchCarver(void* base = nullptr) : base_(static_cast<char*>(base)) {}
  template <class T>
  T* take(std::int64_t count) {
    char* at = base_ ? base_ + used_ : nullptr;
    used_ += round_up(count * static_cast<std::int64_t>(sizeof(T)));
    return reinterpret_cast<T*>(at);
  }
  std::size_t used() const { return static_cast<std::size_t>(used_); }

 private:
  char* base_;
  std::int64_t used_ = 0;
};

}  // namespace starling::kernels
