#include "starling/ops/def/attrs/fused.h"

#include <gtest/gtest.h>

#include <cmath>

#include "starling/kernels/eager.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

const char* kChain = "t0=add(a0,a1); t1=tanh(t0); o0=mul(t1,a2); o1=t0";

Tensor ramp(const Shape& shape, double scale = 0.01, DType dtype = DType::f32) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = scale * static_cast<double>(i) - 1;
  return from_doubles(values, shape, dtype);
}

double distance(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.type(), b.type());
  const auto x = a.to_vector(), y = b.to_vector();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(x[i] - y[i]));
  return worst;
}

std::string chosen(const FusedProgram& program, std::span<const Tensor> in) {
  const Attrs attrs = op::FusedAttrs{Symbol(program.print())};
  const Types types = types_of(in);
  std::vector<ArgDesc> args, out;
  for (const auto& x : in) args.push_back({x.dtype(), x.shape(), x.strides()});
  for (const auto& type : infer(find_op("fused"), {types.data(), types.size()}, attrs)) out.push_back(dense(type));
  return plan_kernel(find_op("fused"), DeviceKind::cpu, attrs, args, out, {.threads = 1}).kernel;
}

TEST(FusedProgram, PrintsWhatItParses) {
  const FusedProgram program = FusedProgram::parse(kChain);
  EXPECT_EQ(program.operands, 3);
  EXPECT_EQ(program.steps.size(), 3u);
  EXPECT_EQ(program.print(), "t0=add(a0,a1); t1=tanh(t0); t2=mul(t1,a2); o0=t2; o1=t0");
  EXPECT_EQ(FusedProgram::parse(program.print()).print(), program.print());
}

TEST(FusedProgram, RefusesWhatIsNoProgram) {
  for (const char* text : {"", "t0=add(a0,a1)", "o0=matmul(a0,a1)", "o0=add(a0)", "o0=add(a0,t3)", "o1=neg(a0)",
                           "o0=", "o0=neg(a0", "neg(a0)", "o0=neg(a0); o0=neg(a0)", "o0=nothing(a0)", "o0=neg(a)",
                           "o0=neg(a-1)", "o0=neg(a99999999999)", "=;;=", "o0=neg(a0);;"}) {
    EXPECT_THROW(FusedProgram::parse(text), Error) << text;
  }
}

TEST(Fused, DoesWhatItsStepsDo) {
  const Shape shapes[][3] = {{{5}, {5}, {5}},          {{40, 70}, {70}, {40, 1}},
                             {{3, 4, 50}, {4, 1}, {}}, {{2, 3, 4, 5}, {3, 1, 1}, {5}},
                             {{1}, {1}, {1}},          {{3000}, {}, {3000}}};
  for (const auto& s : shapes) {
    const Tensor in[] = {ramp(s[0]), ramp(s[1], 0.1), ramp(s[2], 0.2)};
    const TensorList got = fused(in, FusedProgram::parse(kChain));
    const Tensor sum = add(in[0], in[1]);
    const Tensor product = mul(tanh(sum), in[2]);
    EXPECT_LT(distance(got[0], broadcast_to(product, got[0].shape())), 1e-5);
    EXPECT_LT(distance(got[1], broadcast_to(sum, got[1].shape())), 1e-6);
    EXPECT_EQ(chosen(FusedProgram::parse(kChain), in), "chain")
        << to_string(s[0]) << to_string(s[1]) << to_string(s[2]);
  }
}

TEST(Fused, TakesTransposedOperands) {
  const Tensor in[] = {transpose(ramp({30, 20})), ramp({20, 30}), ramp({})};
  const FusedProgram program = FusedProgram::parse(kChain);
  const TensorList got = fused(in, program);
  EXPECT_LT(distance(got[1], add(in[0], in[1])), 1e-6);
}

TEST(Fused, GivesTemporariesAgain) {
  // Deeper than a chain has slots: only reuse of temporaries lets it run as one.
  FusedProgram program{.operands = 1};
  for (int s = 0; s < 60; ++s)
    program.steps.push_back({&find_op(s % 2 ? "tanh" : "add"), s % 2 ? std::vector<int>{s} : std::vector<int>{s, 0}});
  program.outputs = {60};
  const Tensor in[] = {ramp({100})};
  EXPECT_EQ(chosen(program, in), "chain");
  const TensorList got = fused(in, program);
  Tensor want = in[0];
  for (int s = 0; s < 60; ++s) want = s % 2 ? tanh(want) : add(want, in[0]);
  EXPECT_LT(distance(got[0], want), 1e-4);
}

TEST(Fused, RunsOnReferenceWhatNoChainFits) {
  const Tensor in[] = {ramp({4}, 0.5, DType::f16), ramp({4}, 0.5, DType::f16)};
  const TensorList got = fused(in, FusedProgram::parse("o0=add(a0,a1); o1=a0"));
  EXPECT_EQ(got[0].to_vector(), (std::vector<double>{-2, -1, 0, 1}));
  EXPECT_EQ(got[1].to_vector(), in[0].to_vector());
}

TEST(Fused, DecomposesIntoPlainOps) {
  const OpDef& op = find_op("fused");
  const Tensor in[] = {ramp({6, 5}), ramp({5}), ramp({6, 1})};
  const Attrs attrs = op::FusedAttrs{Symbol(kChain)};
  const TensorList got = apply(op, in, attrs), plain = op.decompose(in, attrs);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_LT(distance(got[i], plain[i]), 1e-6);
}

TEST(Fused, RefusesOperandsThatDoNotFit) {
  const FusedProgram program = FusedProgram::parse("o0=add(a0,a1)");
  const Tensor shapes[] = {ramp({3}), ramp({4})};
  EXPECT_THROW(fused(shapes, program), Error);
  const Tensor dtypes[] = {ramp({3}), ramp({3}, 1, DType::f64)};
  EXPECT_THROW(fused(dtypes, program), Error);
  const Tensor few[] = {ramp({3})};
  EXPECT_THROW(fused(few, program), Error);
}

}  // namespace
}  // namespace starling::kernels
