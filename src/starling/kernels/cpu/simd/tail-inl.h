// Loads and stores of the last, incomplete vector of an array; nothing beyond `count` elements is touched.
#if defined(STARLING_KERNELS_CPU_SIMD_TAIL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_SIMD_TAIL_INL_H
#undef STARLING_KERNELS_CPU_SIMD_TAIL_INL_H
#else
#define STARLING_KERNELS_CPU_SIMD_TAIL_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// True if masked loads and stores do not touch memory beyond the mask: AVX2 for wide lanes, AVX-512 for all.
template <class T>
constexpr bool masks_memory() {
  return HWY_TARGET <= HWY_AVX3 || (HWY_TARGET <= HWY_AVX2 && sizeof(T) >= 4);
}

// Load with lanes from `count` on zero. Where a masked load would touch memory, goes through a small buffer.
template <class D>
HWY_INLINE hn::Vec<D> load_tail(D d, const hn::TFromD<D>* p, std::size_t count) {
  if constexpr (masks_memory<hn::TFromD<D>>()) {
    return hn::MaskedLoad(hn::FirstN(d, count), d, p);
  } else {
    hn::TFromD<D> buffer[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)] = {};
    for (std::size_t i = 0; i < count; ++i) buffer[i] = p[i];
    return hn::LoadU(d, buffer);
  }
}

template <class D>
HWY_INLINE void store_tail(D d, hn::Vec<D> v, hn::TFromD<D>* p, std::size_t count) {
  if constexpr (masks_memory<hn::TFromD<D>>()) {
    hn::BlendedStore(v, hn::FirstN(d, count), d, p);
  } else {
    hn::TFromD<D> buffer[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
    hn::StoreU(v, d, buffer);
    for (std::size_t i = 0; i < count; ++i) p[i] = buffer[i];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
