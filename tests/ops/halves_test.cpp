#include <gtest/gtest.h>

#include "ops/op_checks.h"
#include "starling/autograd/transforms.h"
#include "starling/ops/api/conv.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

// The result in 16 bits is the result in f32 of the same (rounded) operands, rounded once.
void expect_wide_then_rounded(const OpDef& op, std::span<const Tensor> halves, const Attrs& attrs) {
  TensorList wide;
  for (const auto& x : halves) wide.push_back(cast(x, DType::f32));
  const TensorList want = apply(op, {wide.data(), wide.size()}, attrs);
  const TensorList got = apply(op, halves, attrs);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].dtype(), halves[0].dtype()) << op.name;
    EXPECT_EQ(difference(got[i], cast(want[i], halves[0].dtype())), 0) << op.name;
  }
}

class Halves : public ::testing::TestWithParam<DType> {};

TEST_P(Halves, AreMultipliedInF32) {
  const Drawn drawn = draw({{{.shape = {5, 19}}, {.shape = {19, 7}}}, op::NoAttrs{}}, GetParam());
  expect_wide_then_rounded(find_op("matmul"), drawn.span(), op::MatmulAttrs{});
}

TEST_P(Halves, AreMultipliedInF32WhenStrided) {
  Drawn drawn = draw({{{.shape = {5, 19}}, {.shape = {19, 7}}}, op::NoAttrs{}}, GetParam());
  for (auto& x : drawn.in) x = strided_copy(x);
  expect_wide_then_rounded(find_op("matmul"), drawn.span(), op::MatmulAttrs{});
}

TEST_P(Halves, AreConvolvedInF32) {
  const Drawn drawn = draw({{{.shape = {2, 3, 8, 8}}, {.shape = {4, 3, 3, 3}}}, op::NoAttrs{}}, GetParam());
  expect_wide_then_rounded(find_op("conv2d"), drawn.span(), op::Conv2dAttrs{});
}

// Nodes refuse gradients of a dtype other than the operand's, so running each one is the check.
TEST_P(Halves, HaveGradientsOfTheirOwnDtype) {
  for (const auto* op : tested_ops()) {
    if (!op->gradient || !op->cases) continue;
    for (const auto& sample : op->cases()) {
      const Drawn drawn = draw(sample, GetParam());
      const Attrs attrs = attrs_for(sample, GetParam());
      const TensorListFn f = [&](std::span<const Tensor> in) { return apply(*op, in, attrs); };
      const TensorList outputs = f(drawn.span());
      std::vector<Tensor> seeds;
      for (const auto& y : outputs) seeds.push_back(is_float(y.dtype()) ? full(y.shape(), 1, y.dtype()) : Tensor());
      EXPECT_NO_THROW(vjp(f, drawn.span()).pullback(seeds)) << describe(*op, sample);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of16Bits, Halves, ::testing::Values(DType::f16, DType::bf16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace starling::testing
