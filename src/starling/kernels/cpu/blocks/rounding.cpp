#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/blocks/rounding.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/fns.h"
#include "starling/kernels/cpu/simd/map-inl.h"
#include "starling/kernels/cpu/simd/power-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

// Keeps the sign of a zero explicitly: the portable baseline loses it.
struct Floor : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, const double*) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) return hn::CopySign(hn::Floor(x), x);
    return x;
  }
};
struct Ceil : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, const double*) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) return hn::CopySign(hn::Ceil(x), x);
    return x;
  }
};
struct Round : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, const double*) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) return hn::CopySign(hn::Round(x), x);
    return x;
  }
};
struct Trunc : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, const double*) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) return hn::CopySign(hn::Trunc(x), x);
    return x;
  }
};
struct Fmod : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b, const double*) const {
    return fmod_vec(d, a, b);
  }
};
struct Mod : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b, const double*) const {
    return mod_vec(d, a, b);
  }
};
struct FloorDiv : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b, const double*) const {
    return floor_div_vec(d, a, b);
  }
};
struct IsNan : MapUnary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D, V x, const double*) const {
    return hn::IsNaN(x);
  }
};
struct IsInf : MapUnary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D, V x, const double*) const {
    return hn::IsInf(x);
  }
};
struct IsFinite : MapUnary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D, V x, const double*) const {
    return hn::IsFinite(x);
  }
};

void add_blocks(BlockTable& table) {
  add_any<Floor>(table, "floor");
  add_any<Ceil>(table, "ceil");
  add_any<Round>(table, "round");
  add_any<Trunc>(table, "trunc");
  add_float<Fmod>(table, "fmod");
  add_float<Mod>(table, "mod");
  add_float<FloorDiv>(table, "floor_div");
  add_float<IsNan>(table, "isnan");
  add_float<IsInf>(table, "isinf");
  add_float<IsFinite>(table, "isfinite");
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
STARLING_REGISTER_BLOCKS(rounding, add_blocks);
}  // namespace starling::kernels
#endif
