#pragma once

#include <cstdint>

namespace starling::kernels {

// Inner loops of depthwise convolutions, on planes arranged so that every tap is a plain vector load: rows of a common
// pitch with zeros between them, and at stride s one such plane per remainder of rows and columns by s. One thread;
// vectors may read and write 64 floats beyond the given counts.
constexpr std::int64_t kDepthwiseSlack = 64;

// to[q] (+)= start + sum over taps of weights[t] * from[q + offsets[t]] for q in [0, count), with an optional relu.
struct DepthwiseSum {
  const float* weights = nullptr;
  const std::int64_t* offsets = nullptr;
  std::int64_t taps = 0;
  float start = 0;
  bool relu = false;
  bool accumulate = false;
};
void depthwise_sum(const DepthwiseSum& sum, const float* from, std::int64_t count, float* to);

// sums[t] += sum over q in [0, count) of by[q] * from[q + offsets[t]]; by is zero beyond count.
void depthwise_dots(const float* from, const std::int64_t* offsets, std::int64_t taps, const float* by,
                    std::int64_t count, float* sums);

// Deinterleaves a row of 2 * count floats: even[i] = from[2 i], odd[i] = from[2 i + 1].
void split_pairs(const float* from, std::int64_t count, float* even, float* odd);

// Copy of rows, possibly short: to[row, 0..width) = from[row, 0..width).
struct RowBlock {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t ld_from = 0;
  std::int64_t ld_to = 0;
};
void copy_rows(const RowBlock& block, const float* from, float* to);

}  // namespace starling::kernels
