#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/blocks/masked.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/fns.h"
#include "starling/kernels/cpu/simd/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

struct MaskedFill {
  static constexpr int kArity = 2;
  static constexpr unsigned kBoolInputs = 1;
  template <class D, class V>
  HWY_INLINE V operator()(D d, hn::Mask<D> mask, V x, const double* params) const {
    return hn::IfThenElse(mask, hn::Set(d, static_cast<hn::TFromD<D>>(params[0])), x);
  }
};

void add_masked(BlockTable& table) { add_any<MaskedFill>(table, "masked_fill"); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
STARLING_REGISTER_BLOCKS(masked, add_masked);
}  // namespace starling::kernels
#endif
