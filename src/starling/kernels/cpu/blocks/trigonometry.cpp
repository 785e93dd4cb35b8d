#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/blocks/trigonometry.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/fns.h"
#include "starling/kernels/cpu/simd/map-inl.h"
#include "starling/kernels/cpu/simd/trig-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

struct Sin : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return sin_vec(d, x);
  }
};
struct Cos : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return cos_vec(d, x);
  }
};
struct Tan : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return tan_vec(d, x);
  }
};
struct Asin : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return hn::Asin(d, x);
  }
};
struct Acos : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return hn::Acos(d, x);
  }
};
struct Atan : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return hn::Atan(d, x);
  }
};
struct Atan2 : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V y, V x, const double*) const {
    return atan2_vec(d, y, x);
  }
};

void add_blocks(BlockTable& table) {
  add_float<Sin>(table, "sin");
  add_float<Cos>(table, "cos");
  add_float<Tan>(table, "tan");
  add_float<Asin>(table, "asin");
  add_float<Acos>(table, "acos");
  add_float<Atan>(table, "atan");
  add_float<Atan2>(table, "atan2");
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
STARLING_REGISTER_BLOCKS(trigonometry, add_blocks);
}  // namespace starling::kernels
#endif
