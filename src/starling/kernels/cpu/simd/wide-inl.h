// Loads of floats or doubles as vectors of double.
#if defined(STARLING_KERNELS_CPU_SIMD_WIDE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_SIMD_WIDE_INL_H
#undef STARLING_KERNELS_CPU_SIMD_WIDE_INL_H
#else
#define STARLING_KERNELS_CPU_SIMD_WIDE_INL_H
#endif

#include <hwy/highway.h>

#include "starling/kernels/cpu/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_wide(D d, const double* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> load_wide(D d, const float* p) {
  const hn::Rebind<float, D> narrow;
  return hn::PromoteTo(d, hn::LoadU(narrow, p));
}

// Load with lanes from `count` on zero.
template <class D>
HWY_INLINE hn::Vec<D> load_wide_tail(D d, const double* p, std::size_t count) {
  return load_tail(d, p, count);
}
template <class D>
HWY_INLINE hn::Vec<D> load_wide_tail(D d, const float* p, std::size_t count) {
  float buffer[HWY_MAX_BYTES / sizeof(double)] = {};
  for (std::size_t i = 0; i < count; ++i) buffer[i] = p[i];
  const hn::Rebind<float, D> narrow;
  return hn::PromoteTo(d, hn::LoadU(narrow, buffer));
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
