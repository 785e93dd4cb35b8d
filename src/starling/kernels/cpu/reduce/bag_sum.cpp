#include "starling/kernels/cpu/reduce/bag_sum.h"

#include <type_traits>

// Must precede any Highway header.
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/reduce/bag_sum.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "starling/kernels/cpu/index/row_order.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

template <class T>
HWY_INLINE const T* row_of(const BagRows<T>& bag, std::int64_t i) {
  return bag.x + (bag.gathered ? bag.indices[i] : i) * bag.width;
}

// Sums four vectors of columns at `j` over all rows, in registers.
template <class D, class T>
HWY_INLINE void four_columns(D d, const BagRows<T>& bag, std::int64_t j, T* out) {
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (std::int64_t i = bag.begin; i < bag.end; ++i) {
    if (bag.indices[i] == bag.padding) continue;
    if (j == 0 && bag.gathered && i + kAhead < bag.entries) prefetch_row(row_of(bag, i + kAhead), bag.width);
    const T* row = row_of(bag, i) + j;
    const auto factor = hn::Set(d, bag.scale ? bag.scale[i] : T{1});
    a = hn::MulAdd(factor, hn::LoadU(d, row), a);
    b = hn::MulAdd(factor, hn::LoadU(d, row + n), b);
    c = hn::MulAdd(factor, hn::LoadU(d, row + 2 * n), c);
    e = hn::MulAdd(factor, hn::LoadU(d, row + 3 * n), e);
  }
  hn::StoreU(a, d, out + j);
  hn::StoreU(b, d, out + j + n);
  hn::StoreU(c, d, out + j + 2 * n);
  hn::StoreU(e, d, out + j + 3 * n);
}

template <class T>
HWY_INLINE void rest(const BagRows<T>& bag, std::int64_t from, T* out) {
  for (std::int64_t j = from; j < bag.width; ++j) out[j] = T{0};
  for (std::int64_t i = bag.begin; i < bag.end; ++i) {
    if (bag.indices[i] == bag.padding) continue;
    const T* row = row_of(bag, i);
    const T factor = bag.scale ? bag.scale[i] : T{1};
    for (std::int64_t j = from; j < bag.width; ++j) out[j] += factor * row[j];
  }
}

template <class T>
HWY_INLINE void sum_any(const BagRows<T>& bag, T* out) {
  const hn::ScalableTag<T> d;
  const auto step = 4 * static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t j = 0;
  for (; j + step <= bag.width; j += step) four_columns(d, bag, j, out);
  if (j < bag.width) rest(bag, j, out);
}

void sum_f32(const BagRows<float>& bag, float* out) { sum_any(bag, out); }
void sum_f64(const BagRows<double>& bag, double* out) { sum_any(bag, out); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {

HWY_EXPORT(sum_f32);
HWY_EXPORT(sum_f64);

}  // namespace

template <class T>
void sum_bag(const BagRows<T>& bag, T* out) {
  if constexpr (std::is_same_v<T, float>) {
    HWY_DYNAMIC_DISPATCH(sum_f32)(bag, out);
  } else {
    HWY_DYNAMIC_DISPATCH(sum_f64)(bag, out);
  }
}

template void sum_bag(const BagRows<float>&, float*);
template void sum_bag(const BagRows<double>&, double*);

}  // namespace starling::kernels
#endif
