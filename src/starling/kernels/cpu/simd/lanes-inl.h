// C library functions applied lane by lane, for rare arguments that vector code does not cover.
#if defined(STARLING_KERNELS_CPU_SIMD_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_SIMD_LANES_INL_H
#undef STARLING_KERNELS_CPU_SIMD_LANES_INL_H
#else
#define STARLING_KERNELS_CPU_SIMD_LANES_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct ScalarSin {
  template <class T>
  T operator()(T x) const {
    return std::sin(x);
  }
};
struct ScalarCos {
  template <class T>
  T operator()(T x) const {
    return std::cos(x);
  }
};
struct ScalarTan {
  template <class T>
  T operator()(T x) const {
    return std::tan(x);
  }
};
struct ScalarFmod {
  template <class T>
  T operator()(T a, T b) const {
    return std::fmod(a, b);
  }
};

template <class F, class D, class V>
HWY_NOINLINE V each_lane(D d, V x) {
  HWY_ALIGN hn::TFromD<D> lane[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  hn::Store(x, d, lane);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lane[i] = F()(lane[i]);
  return hn::Load(d, lane);
}

template <class F, class D, class V>
HWY_NOINLINE V each_lane(D d, V a, V b) {
  HWY_ALIGN hn::TFromD<D> lane[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  HWY_ALIGN hn::TFromD<D> other[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  hn::Store(a, d, lane);
  hn::Store(b, d, other);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lane[i] = F()(lane[i], other[i]);
  return hn::Load(d, lane);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
