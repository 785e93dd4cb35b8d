#include "starling/kernels/cpu/reduce/column_sum.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/reduce/column_sum.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "starling/kernels/cpu/gemm/gemm_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using gemm_simd::load_first;
using gemm_simd::store_first;

// Sums V vectors of columns at a time: as many independent sums as the adder needs.
template <int V>
void sum_strip(const float* x, std::int64_t rows, std::int64_t ld, float* sum, bool accumulate) {
  const hn::ScalableTag<float> d;
  constexpr std::int64_t L = HWY_LANES(float);
  hn::Vec<decltype(d)> acc[V];
  for (int v = 0; v < V; ++v) acc[v] = accumulate ? hn::LoadU(d, sum + v * L) : hn::Zero(d);
  for (std::int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[v] = hn::Add(acc[v], hn::LoadU(d, x + r * ld + v * L));
  }
  for (int v = 0; v < V; ++v) hn::StoreU(acc[v], d, sum + v * L);
}

void sum_columns(const float* x, std::int64_t rows, std::int64_t cols, std::int64_t ld, float* sum, bool accumulate) {
  const hn::ScalableTag<float> d;
  constexpr std::int64_t L = HWY_LANES(float);
  std::int64_t c = 0;
  for (; c + 4 * L <= cols; c += 4 * L) sum_strip<4>(x + c, rows, ld, sum + c, accumulate);
  for (; c + L <= cols; c += L) sum_strip<1>(x + c, rows, ld, sum + c, accumulate);
  if (c == cols) return;
  auto acc = accumulate ? load_first(d, sum + c, cols - c) : hn::Zero(d);
  for (std::int64_t r = 0; r < rows; ++r) acc = hn::Add(acc, load_first(d, x + r * ld + c, cols - c));
  store_first(acc, d, sum + c, cols - c);
}

void sum_rows(const float* x, std::int64_t rows, std::int64_t cols, std::int64_t ld, float* sum, bool accumulate) {
  const hn::ScalableTag<float> d;
  constexpr std::int64_t L = HWY_LANES(float);
  for (std::int64_t r = 0; r < rows; ++r, x += ld) {
    auto even = hn::Zero(d);
    auto odd = hn::Zero(d);
    std::int64_t c = 0;
    for (; c + 2 * L <= cols; c += 2 * L) {
      even = hn::Add(even, hn::LoadU(d, x + c));
      odd = hn::Add(odd, hn::LoadU(d, x + c + L));
    }
    for (; c < cols; c += L) even = hn::Add(even, load_first(d, x + c, std::min(L, cols - c)));
    const float total = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
    sum[r] = accumulate ? sum[r] + total : total;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
HWY_EXPORT(sum_columns);
HWY_EXPORT(sum_rows);

void row_sum(const float* x, std::int64_t rows, std::int64_t cols, std::int64_t ld, float* sum, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(sum_rows)(x, rows, cols, ld, sum, accumulate);
}

void column_sum(const float* x, std::int64_t rows, std::int64_t cols, std::int64_t ld, float* sum, bool accumulate,
                int threads) {
  constexpr std::int64_t kElementsPerThread = 128 * 1024;  // with less, a second thread costs more than it gains
  const std::int64_t useful = std::clamp<std::int64_t>(rows * cols / kElementsPerThread, 1, threads);
  const auto sum_some = HWY_DYNAMIC_DISPATCH(sum_columns);
  parallel_run(static_cast<int>(useful), [&](int t) {
    const std::int64_t begin = cols * t / useful;
    const std::int64_t end = cols * (t + 1) / useful;
    sum_some(x + begin, rows, end - begin, ld, sum + begin, accumulate);
  });
}

}  // namespace starling::kernels
#endif
