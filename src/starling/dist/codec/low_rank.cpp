#include "starling/dist/codec/low_rank.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace starling::dist {
namespace {

// Sum of products in sixteen partial sums, which the compiler keeps in vectors.
float dot(const float* a, const float* b, std::int64_t n) {
  constexpr std::int64_t kLanes = 16;
  float sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t k = 0; k < kLanes; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) sums[i % kLanes] += a[i] * b[i];
  float all = 0;
  for (const float sum : sums) all += sum;
  return all;
}

void add_times(float factor, const float* from, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

}  // namespace

void times_rows(const CodedShape& shape, std::int64_t r, const float* m, const float* q, float* p) {
  for (std::int64_t line = 0; line < shape.lines; ++line) {
    for (std::int64_t k = 0; k < r; ++k)
      p[k * shape.lines + line] = dot(m + line * shape.width, q + k * shape.width, shape.width);
  }
}

void times_columns(const CodedShape& shape, std::int64_t r, const float* m, const float* p, float* q) {
  std::fill_n(q, r * shape.width, 0.0F);
  for (std::int64_t line = 0; line < shape.lines; ++line) {
    for (std::int64_t k = 0; k < r; ++k)
      add_times(p[k * shape.lines + line], m + line * shape.width, q + k * shape.width, shape.width);
  }
}

void product(const CodedShape& shape, std::int64_t r, const float* p, const float* q, float* m) {
  std::fill_n(m, shape.values(), 0.0F);
  for (std::int64_t line = 0; line < shape.lines; ++line) {
    for (std::int64_t k = 0; k < r; ++k)
      add_times(p[k * shape.lines + line], q + k * shape.width, m + line * shape.width, shape.width);
  }
}

void orthonormalise(std::int64_t r, std::int64_t n, float* vectors) {
  constexpr float kNothing = 1e-5F;  // share of a vector's norm that rounding alone may leave of it
  for (std::int64_t k = 0; k < r; ++k) {
    float* own = vectors + k * n;
    const float before = std::sqrt(dot(own, own, n));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t j = 0; j < k; ++j) add_times(-dot(own, vectors + j * n, n), vectors + j * n, own, n);
    }
    const float norm = std::sqrt(dot(own, own, n));
    const float factor = norm <= kNothing * before ? 0.0F : 1 / norm;  // NaN stays
    for (std::int64_t i = 0; i < n; ++i) own[i] *= factor;
  }
}

void random_directions(std::span<float> values) {
  std::mt19937_64 generator(20190531);
  for (float& value : values) {
    // The sum of four uniform numbers: a distribution of the library may differ between machines.
    double sum = -2;
    for (int i = 0; i < 4; ++i) sum += std::ldexp(static_cast<double>(generator() >> 11), -53);
    value = static_cast<float>(sum);
  }
}

}  // namespace starling::dist
