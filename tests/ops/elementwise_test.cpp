#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "ops/op_checks.h"
#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/logical.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/tensor/interpreter.h"

namespace starling::testing {
namespace {

using Values = std::vector<double>;

Tensor floats(const Values& values, DType dtype = DType::f64) {
  return from_doubles(values, {static_cast<std::int64_t>(values.size())}, dtype);
}

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

// Calls are planned once for equal attributes: -0 and 0 are two.
TEST(Elementwise, AttributesOfMinusZeroAreNotThoseOfZero) {
  for (const double value : {0.0, -0.0, 0.0}) EXPECT_EQ(std::signbit(full({}, value).item()), std::signbit(value));
}

TEST(Elementwise, IntegersDividedByZeroAreErrorsThatNameTheOp) {
  for (DType dtype : {DType::i8, DType::u8, DType::i32, DType::i64}) {
    const Tensor a = floats({6, 7}, dtype), b = floats({2, 0}, dtype);
    EXPECT_EQ(refusal([&] { div(a, b); }).rfind("[div]", 0), 0u);
    EXPECT_EQ(refusal([&] { mod(a, b); }).rfind("[mod]", 0), 0u);
    EXPECT_EQ(refusal([&] { fmod(a, b); }).rfind("[fmod]", 0), 0u);
    EXPECT_EQ(refusal([&] { floor_div(a, b); }).rfind("[floor_div]", 0), 0u);
  }
  EXPECT_EQ(refusal([] { pow(floats({2}, DType::i32), floats({-1}, DType::i32)); }).rfind("[pow]", 0), 0u);
}

TEST(Elementwise, TheLeastIntegerWrapsWhereItHasNoOpposite) {
  const std::int64_t least = std::numeric_limits<std::int64_t>::min(), minus = -1;
  const Tensor a = from_host<std::int64_t>({&least, 1}, {1}), b = from_host<std::int64_t>({&minus, 1}, {1});
  for (const Tensor& y : {div(a, b), floor_div(a, b), abs(a), neg(a)}) EXPECT_EQ(y.data<std::int64_t>()[0], least);
  for (const Tensor& y : {mod(a, b), fmod(a, b)}) EXPECT_EQ(y.data<std::int64_t>()[0], 0);
}

TEST(Elementwise, RemaindersHaveTheSignOfDivisorOrDividend) {
  for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64}) {
    const Tensor a = floats({7, -7, 7, -7, 6, 0}, dtype), b = floats({3, 3, -3, -3, 3, 5}, dtype);
    EXPECT_EQ(mod(a, b).to_vector(), (Values{1, 2, -2, -1, 0, 0})) << name(dtype);
    EXPECT_EQ(fmod(a, b).to_vector(), (Values{1, -1, 1, -1, 0, 0})) << name(dtype);
    EXPECT_EQ(floor_div(a, b).to_vector(), (Values{2, -3, -3, 2, 2, 0})) << name(dtype);
  }
}

// As in Python: a rest of zero has the sign of the divisor, a quotient of zero that of both.
TEST(Elementwise, ZerosOfDivisionsHaveSigns) {
  const double inf = std::numeric_limits<double>::infinity();
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor a = floats({0, 0, -0.0, -0.0, 6, 6, -6, -6, -1, 1, 0.5, -0.5}, dtype);
    const Tensor b = floats({5, -5, 5, -5, 3, -3, 3, -3, -inf, inf, 2, -2}, dtype);
    const Values rests = mod(a, b).to_vector(), quotients = floor_div(a, b).to_vector();
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(rests[i], 0);
      EXPECT_EQ(std::signbit(rests[i]), std::signbit(b.to_vector()[i])) << name(dtype) << ' ' << i;
    }
    for (const std::size_t i : {0U, 1U, 2U, 3U, 8U, 9U, 10U, 11U}) {
      EXPECT_EQ(quotients[i], 0);
      EXPECT_EQ(std::signbit(quotients[i]), i == 1 || i == 2) << name(dtype) << ' ' << i;
    }
  }
}

// 1 / 0.1 rounds up to 10, but ten times the double 0.1 is more than 1.
TEST(Elementwise, FloorDivisionDoesNotRoundUp) {
  EXPECT_EQ(floor_div(floats({1, -1}), 0.1).to_vector(), (Values{9, -10}));
}

TEST(Elementwise, IntegersRaiseBySquaringAndWrap) {
  const Tensor y = pow(floats({3, -2, 0, 5, 2}, DType::i64), floats({4, 3, 0, 0, 64}, DType::i64));
  EXPECT_EQ(y.to_vector(), (Values{81, -8, 1, 1, 0}));
}

TEST(Elementwise, BitsOfIntegersAndBools) {
  const Tensor a = floats({12, -1, 7}, DType::i32), b = floats({10, 6, -8}, DType::i32);
  EXPECT_EQ((a & b).to_vector(), (Values{8, 6, 0}));
  EXPECT_EQ((a | b).to_vector(), (Values{14, -1, -1}));
  EXPECT_EQ((a ^ b).to_vector(), (Values{6, -7, -1}));
  EXPECT_EQ((~a).to_vector(), (Values{-13, 0, -8}));
  const Tensor yes = less(a, b);  // false, true, false
  EXPECT_EQ((~yes).to_vector(), (Values{1, 0, 1}));
  EXPECT_EQ((yes ^ !yes).to_vector(), (Values{1, 1, 1}));
  EXPECT_EQ(refusal([] { bitwise_and(floats({1}), floats({1})); }).rfind("[bitwise_and]", 0), 0u);
}

TEST(Elementwise, ShiftsPushBitsOut) {
  for (DType dtype : {DType::i8, DType::i32, DType::i64}) {
    const Tensor x = floats({5, -5, 5, -5, 1}, dtype), by = floats({1, 1, -1, 70, 2}, dtype);
    EXPECT_EQ(left_shift(x, by).to_vector(), (Values{10, -10, 0, 0, 4})) << name(dtype);
    EXPECT_EQ(right_shift(x, by).to_vector(), (Values{2, -3, 0, -1, 0})) << name(dtype);
  }
}

TEST(Elementwise, HalvesRoundToEven) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16})
    EXPECT_EQ(round(floats({0.5, 1.5, 2.5, -0.5, -1.5, 2.4}, dtype)).to_vector(), (Values{0, 2, 2, 0, -2, 2}));
}

Values gradient(const std::function<Tensor(const Tensor&)>& f, const Values& at) {
  const Tensor x = floats(at).set_requires_grad();
  const Tensor y = f(x), seed = full(y.shape(), 1, DType::f64);
  return gradients({&y, 1}, {&x, 1}, {&seed, 1})[0].to_vector();
}

TEST(Elementwise, PowersHaveSlopesAtZeroAndBelow) {
  const auto power = [](double b) { return [b](const Tensor& x) { return pow(x, full({}, b, DType::f64)); }; };
  EXPECT_EQ(gradient(power(0), {0, -2, 3}), (Values{0, 0, 0}));
  EXPECT_EQ(gradient(power(1), {0, -2, 3}), (Values{1, 1, 1}));
  EXPECT_EQ(gradient(power(2), {0, -2, 3}), (Values{0, -4, 6}));
  EXPECT_EQ(gradient(power(3), {0, -2, 3}), (Values{0, 12, 27}));
  EXPECT_EQ(gradient(power(-1), {-2}), (Values{-0.25}));
  const auto of_exponent = [](const Tensor& b) { return pow(floats({0, 0, 1}), b); };
  EXPECT_EQ(gradient(of_exponent, {0, 2, 5}), (Values{0, 0, 0}));
}

TEST(Elementwise, CommonExponentsTakeTheCheaperOps) {
  const Tensor x = floats({0.25, 4, 9});
  EXPECT_EQ(pow(x, 2.0).to_vector(), square(x).to_vector());
  EXPECT_EQ(pow(x, 0.5).to_vector(), (Values{0.5, 2, 3}));
  EXPECT_EQ(pow(x, -1.0).to_vector(), reciprocal(x).to_vector());
  EXPECT_EQ(pow(floats({3}, DType::i32), 3.0).to_vector(), (Values{27}));
  EXPECT_EQ(pow(2.0, floats({-1, 0, 3})).to_vector(), (Values{0.5, 1, 8}));
}

TEST(Elementwise, PreluTakesOneWeightAChannel) {
  const Tensor x = from_doubles(Values{-1, 1, -2, 2, -3, 3, -4, 4}, {2, 2, 2}, DType::f64);
  EXPECT_EQ(prelu(x, floats({0.5, 0.25})).to_vector(), (Values{-0.5, 1, -0.5, 2, -1.5, 3, -1, 4}));
  EXPECT_EQ(prelu(x, floats({2})).to_vector(), (Values{-2, 1, -4, 2, -6, 3, -8, 4}));
  const Tensor weight = floats({0.5, 0.25}).set_requires_grad();
  const Tensor y = prelu(x, weight), seed = full(y.shape(), 1, DType::f64);
  EXPECT_EQ(gradients({&y, 1}, {&weight, 1}, {&seed, 1})[0].to_vector(), (Values{-4, -6}));
}

TEST(Elementwise, BoundsOfClampAreChecked) {
  EXPECT_EQ(clamp(floats({-3, 0.5, 9}), {.max = 1}).to_vector(), (Values{-3, 0.5, 1}));
  EXPECT_EQ(clamp(floats({-3, 2, 9}, DType::i64), 0, 5).to_vector(), (Values{0, 2, 5}));
  EXPECT_TRUE(std::isnan(clamp(floats({NAN}), 0, 1).to_vector()[0]));
  EXPECT_EQ(refusal([] { clamp(floats({1}), 2, 1); }).rfind("[clamp]", 0), 0u);
  EXPECT_EQ(refusal([] { clamp(floats({1}), NAN, 1); }).rfind("[clamp]", 0), 0u);
  EXPECT_EQ(refusal([] { clamp(floats({1}, DType::i32), 0.5, 1); }).rfind("[clamp]", 0), 0u);
  EXPECT_EQ(refusal([] { elu(floats({1}), INFINITY); }).rfind("[elu]", 0), 0u);
}

TEST(Elementwise, LerpIsExactAtBothEnds) {
  const Tensor a = floats({0.1, 1e20}), b = floats({0.7, -3});
  EXPECT_EQ(lerp(a, b, 0.0).to_vector(), a.to_vector());
  EXPECT_EQ(lerp(a, b, 1.0).to_vector(), b.to_vector());
}

TEST(Elementwise, ActivationsVanishAtMinusInfinity) {
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = floats(Values(20, -INFINITY), dtype);
    for (const Tensor& y : {gelu(x), gelu_tanh(x), silu(x), mish(x), hardswish(x), softplus(x)})
      EXPECT_EQ(y.to_vector()[3], 0);
    for (const char* op : {"gelu_backward", "gelu_tanh_backward", "silu_backward", "mish_backward"})
      EXPECT_EQ(apply1(find_op(op), {full({20}, 1, dtype), x}).to_vector()[3], 0) << op;
  }
}

TEST(Elementwise, LargeResultsAreStreamedAndRight) {
  const std::int64_t n = (std::int64_t{9} << 20) / 4 + 7;
  const Tensor x = full({n}, 0.5), y = empty({n});
  // Offsets that are not aligned to vectors.
  const Tensor part = view_of(y, {n - 3}, {1}, 3), from = view_of(x, {n - 3}, {1}, 1);
  current_interpreter().apply_into(find_op("square"), {&from, 1}, {}, {&part, 1});
  EXPECT_EQ(sum(part).to_vector()[0], 0.25 * static_cast<double>(n - 3));
  EXPECT_EQ(part.data<float>()[0], 0.25f);
  EXPECT_EQ(part.data<float>()[n - 4], 0.25f);
}

TEST(Elementwise, OpsThatWouldTakeU64AsSignedRefuseIt) {
  const std::uint64_t values[] = {std::uint64_t{1} << 63, 3};
  const Tensor x = from_host<std::uint64_t>(values, {2}), pair[] = {x, x};
  for (const char* op : {"less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "div", "floor_div",
                         "mod", "fmod", "right_shift", "clamp", "abs", "sign", "max", "min", "argmax", "argmin"}) {
    const OpDef& def = find_op(op);
    const Attrs attrs = def.attrs ? def.cases()[0].attrs : Attrs(op::NoAttrs{});
    const std::string said = refusal([&] { apply(def, {pair, def.inputs.size()}, attrs); });
    EXPECT_EQ(said.rfind(std::string("[") + op + "] expected", 0), 0u) << said;
    EXPECT_NE(said.find("got u64: it is for storage and conversion"), std::string::npos) << said;
  }
}

TEST(Elementwise, U64IsAddedAndToldApartAsItIs) {
  const std::uint64_t values[] = {(std::uint64_t{1} << 63) + 1, 3};
  const Tensor x = from_host<std::uint64_t>(values, {2});
  EXPECT_EQ(add(x, x).data<std::uint64_t>()[0], 2u);
  EXPECT_EQ(sub(x, x).data<std::uint64_t>()[0], 0u);
  EXPECT_TRUE(equal(x, x).data<bool>()[0]);
}

TEST(Elementwise, NanIsTrueAndDiffersFromEverything) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const Tensor a = floats({NAN, NAN, 0, 1, NAN, -0.0}, dtype), b = floats({NAN, 1, NAN, NAN, 0, 0}, dtype);
    EXPECT_EQ(not_equal(a, b).to_vector(), (Values{1, 1, 1, 1, 1, 0})) << name(dtype);
    EXPECT_EQ(logical_and(a, b).to_vector(), (Values{1, 1, 0, 1, 0, 0})) << name(dtype);
    EXPECT_EQ(logical_or(a, b).to_vector(), (Values{1, 1, 1, 1, 1, 0})) << name(dtype);
    EXPECT_EQ(logical_xor(a, b).to_vector(), (Values{0, 0, 1, 0, 1, 0})) << name(dtype);
  }
}

// Gradients of the sum of a function of two tensors.
std::vector<Values> slopes(Tensor (*f)(const Tensor&, const Tensor&), Tensor a, Tensor b) {
  const std::vector<Tensor> in{a.set_requires_grad(), b.set_requires_grad()};
  const Tensor y = sum(f(a, b));
  const TensorList found = gradients({&y, 1}, in);
  return {found[0].to_vector(), found[1].to_vector()};
}

TEST(Elementwise, TheSlopeOfAnAngleIsZeroAtTheOriginAndReachesTheEndsOfTheDtype) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16}) {
    const auto at_origin = slopes(atan2, floats({0, -0.0, 3}, dtype), floats({0, 0, 4}, dtype));
    EXPECT_EQ(at_origin[0][0], 0) << name(dtype);
    EXPECT_EQ(at_origin[0][1], 0) << name(dtype);
    EXPECT_EQ(at_origin[1][0], 0) << name(dtype);
    EXPECT_EQ(at_origin[1][1], 0) << name(dtype);
    EXPECT_NEAR(at_origin[0][2], 0.16, 1e-3);
    EXPECT_NEAR(at_origin[1][2], -0.12, 1e-3);
  }
  // x² + y² leaves f16 from 256 on, and f32 from 1e19 on.
  const auto half = slopes(atan2, floats({300, 1024}, DType::f16), floats({400, -1024}, DType::f16));
  EXPECT_NEAR(half[0][0], 400 / 250000.0, 5e-6);
  EXPECT_NEAR(half[1][0], -300 / 250000.0, 5e-6);
  EXPECT_NEAR(half[0][1], -1 / 2048.0, 2e-6);
  EXPECT_NEAR(half[1][1], -1 / 2048.0, 2e-6);
  const auto far = slopes(atan2, floats({60000}, DType::f16), floats({60000}, DType::f16));
  EXPECT_NEAR(far[0][0], 1 / 120000.0, 1e-7);
  const auto single = slopes(atan2, floats({3e20, 3e-30}, DType::f32), floats({4e20, 4e-30}, DType::f32));
  EXPECT_NEAR(single[0][0] * 1e20, 0.16, 1e-6);
  EXPECT_NEAR(single[0][1] / 1e30, 0.16, 1e-6);
}

TEST(Elementwise, TheSlopeOfAnExponentAtBaseZeroIsZeroUnlessThePowerIsInfinite) {
  const auto found = slopes(pow, floats({0, 0, 0, 2}), floats({2, 0, -1, 3}));
  EXPECT_EQ(found[1][0], 0);
  EXPECT_EQ(found[1][1], 0);
  EXPECT_EQ(found[1][2], -INFINITY);
  EXPECT_NEAR(found[1][3], 8 * std::log(2.0), 1e-12);
}

}  // namespace
}  // namespace starling::testing
