#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/blocks/softplus.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/map-inl.h"
#include "starling/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {
namespace {

// max(x, 0) + log(1 + e^-|x|): the exponential never overflows.
struct Softplus {
  static constexpr int kArity = 1;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    const V small = exp_vec(d, hn::Neg(hn::Abs(x)));
    return hn::Add(hn::Max(x, hn::Zero(d)), log_vec(d, hn::Add(small, hn::Set(d, 1))));
  }
};

void add_softplus(BlockTable& table) { table.add(make_block<Softplus, float, double>("softplus")); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {
namespace {
HWY_EXPORT(add_softplus);
}  // namespace

void register_block_softplus(BlockTable& table);
void register_block_softplus(BlockTable& table) { HWY_DYNAMIC_DISPATCH(add_softplus)(table); }

}  // namespace starling
#endif
