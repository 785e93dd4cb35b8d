// Loops over whole vectors and the rest for the normalisation kernels.
#if defined(STARLING_KERNELS_CPU_SIMD_NORMALIZE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_SIMD_NORMALIZE_INL_H
#undef STARLING_KERNELS_CPU_SIMD_NORMALIZE_INL_H
#else
#define STARLING_KERNELS_CPU_SIMD_NORMALIZE_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "starling/kernels/cpu/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Access to a whole vector; the last, shorter one has the same interface, so that a loop body is written once.
template <class T>
struct WholeVector {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  D d{};
  HWY_INLINE V load(const T* p) const { return hn::LoadU(d, p); }
  HWY_INLINE void store(V v, T* p) const { hn::StoreU(v, d, p); }
  HWY_INLINE V live(V v) const { return v; }  // zero beyond the end
};
template <class T>
struct LastVector {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  std::size_t count;
  D d{};
  HWY_INLINE V load(const T* p) const { return load_tail(d, p, count); }
  HWY_INLINE void store(V v, T* p) const { store_tail(d, v, p, count); }
  HWY_INLINE V live(V v) const { return hn::IfThenElseZero(hn::FirstN(d, count), v); }
};

// Calls body(vector, offset, set): `set` is 0 or 1, alternating between two sets of sums to hide the latency of
// additions.
template <class T, class Body>
HWY_INLINE void for_vectors(std::int64_t n, Body& body) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const WholeVector<T> whole;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    body.template step<0>(whole, i);
    body.template step<1>(whole, i + lanes);
  }
  if (i + lanes <= n) {
    body.template step<0>(whole, i);
    i += lanes;
  }
  if (i < n) body.template step<1>(LastVector<T>{static_cast<std::size_t>(n - i)}, i);
}

// Two sums, each in two vectors.
template <class T>
struct TwoSums {
  using V = hn::Vec<hn::ScalableTag<T>>;
  V first0, first1, second0, second1;
  HWY_INLINE void clear() { first0 = first1 = second0 = second1 = hn::Zero(hn::ScalableTag<T>()); }
  template <int Set>
  HWY_INLINE V& first() {
    if constexpr (Set == 0)
      return first0;
    else
      return first1;
  }
  template <int Set>
  HWY_INLINE V& second() {
    if constexpr (Set == 0)
      return second0;
    else
      return second1;
  }
  HWY_INLINE void flush(double* a, double* b) {
    const hn::ScalableTag<T> d;
    *a += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(first0, first1))));
    *b += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(second0, second1))));
    clear();
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
