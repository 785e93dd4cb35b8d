// A function defined outside the core list, the way a kernel family does it.
#include <gtest/gtest.h>

#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd_map_test.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/map-inl.h"
#include "starling/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))
struct Softplus {
  static constexpr int kArity = 1;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    const V e = exp_vec(d, hn::Neg(hn::Abs(x)));
    return hn::Add(hn::Max(x, hn::Zero(d)), log_vec(d, hn::Add(e, hn::Set(d, 1))));
  }
};

struct LeakyRelu {
  static constexpr int kArity = 1;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double* params) const {
    const V slope = hn::Set(d, static_cast<hn::TFromD<D>>(params[0]));
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, slope), x);
  }
};

void add_family(BlockTable& table) {
  table.add(make_block<Softplus, float, double>("softplus"));
  table.add(make_block<LeakyRelu, float>("leaky_relu"));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/simd_testing.h"

namespace starling::kernels {
namespace {

HWY_EXPORT(add_family);

TEST(Map, AFamilyAddsItsOwnFunctions) {
  testing::for_each_target([] {
    BlockTable table;
    HWY_DYNAMIC_DISPATCH(add_family)(table);
    const BlockEntry* softplus = table.find("softplus");
    ASSERT_NE(softplus, nullptr);
    EXPECT_EQ(softplus->arity, 1);
    EXPECT_FALSE(softplus->bool_output);
    EXPECT_EQ(softplus->of(BlockType::i32), nullptr);
    const std::int64_t n = 101;
    testing::Unaligned<float> x(n), y(n);
    testing::fill_random(x.data(), n, -30, 30);
    const void* in[] = {x.data()};
    run_block(*softplus, BlockType::f32, in, 0, y.data(), n);
    for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], std::log1p(std::exp(static_cast<double>(x[i]))), 4e-6);
  });
}

TEST(Map, ParametersReachTheFunction) {
  BlockTable table;
  HWY_DYNAMIC_DISPATCH(add_family)(table);
  const float x[] = {-2.0f, 3.0f};
  float y[2];
  const void* in[] = {x};
  const double slope = 0.25;
  run_block(*table.find("leaky_relu"), BlockType::f32, in, 0, y, 2, &slope);
  EXPECT_EQ(y[0], -0.5f);
  EXPECT_EQ(y[1], 3.0f);
}

}  // namespace
}  // namespace starling::kernels
#endif
