#include <gtest/gtest.h>

#include "starling/base/error.h"
#include "starling/kernels/cuda/elementwise.h"
#include "starling/kernels/cuda/run_time_kernel.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

// Tests that only compile device code, which needs no GPU.

cuda::Chain alone(const std::string& expression, std::size_t operands, DType dtype, DType result) {
  cuda::Chain chain{.shape = {6, 7},
                    .operands = {},
                    .steps = {{expression, {}, result, {}}},
                    .outputs = {static_cast<int>(operands)}};
  for (std::size_t i = 0; i < operands; ++i) {
    chain.operands.push_back({dtype, i == 0 ? Shape{7, 1} : Shape{0, 1}});
    chain.steps[0].in.push_back(static_cast<int>(i));
  }
  return chain;
}

// All in one kernel, which compiles in the time of one.
TEST(CudaElementwise, EveryExpressionCompiles) {
  kernels::kernel_table();
  for (const DType dtype : {DType::f32, DType::i64}) {
    cuda::Chain chain{.shape = {6, 7}, .operands = {}, .steps = {}, .outputs = {}};
    for (int i = 0; i < 3; ++i) chain.operands.push_back({dtype, i == 0 ? Shape{7, 1} : Shape{0, 1}});
    for (const auto* op : op_registry().sorted()) {
      const std::string* expression = cuda::elementwise_expression(op->name, dtype);
      if (expression == nullptr) continue;
      if (!is_float(dtype) && !op->integer) continue;
      chain.steps.push_back({*expression, {}, dtype, std::vector<double>(op->attrs->fields.size(), 0.5)});
      for (std::size_t i = 0; i < op->inputs.size(); ++i) chain.steps.back().in.push_back(static_cast<int>(i));
    }
    EXPECT_GE(chain.steps.size(), is_float(dtype) ? 80u : 20u);
    chain.outputs = {3};
    EXPECT_FALSE(cuda::compile_source(cuda::chain_source(chain), "sm_90").empty());
  }
}

// Ops whose kernels are compiled when they are planned, which needs no GPU.
TEST(CudaRunTimeKernels, TheFirstSampleCallOfEveryOpCompiles) {
  constexpr std::size_t kSamples = 1;
  int compiled = 0;
  for (const auto* op : op_registry().sorted()) {
    const auto& kernels = kernels::kernel_table().find(*op, DeviceKind::cuda);
    if (!op->cases || op->elementwise() || kernels.empty() || kernels.back().name != "nvrtc") continue;
    const auto cases = op->cases();
    for (std::size_t i = 0; i < std::min(kSamples, cases.size()); ++i) {
      std::vector<kernels::ArgDesc> in, out;
      std::vector<TensorType> types;
      for (const auto& input : cases[i].in) {
        types.push_back({is_float(input.dtype) ? DType::f32 : input.dtype, input.shape});
        in.push_back(kernels::dense(types.back()));
      }
      Attrs attrs = cases[i].attrs;
      for (const auto& type : infer(*op, types, attrs)) out.push_back(kernels::dense(type));
      EXPECT_NO_THROW(static_cast<void>(kernels.back().plan({*op, attrs, in, out, 1})))
          << op->name << "(" << attrs.print() << ")";
      ++compiled;
    }
  }
  EXPECT_GE(compiled, 60);
}

TEST(CudaElementwise, ChainsCompileToOneKernel) {
  const cuda::Chain chain{.shape = {1024, 1024},
                          .operands = {{DType::f32, {1024, 1}}, {DType::f32, {0, 1}}, {DType::i64, {0, 0}}},
                          .steps = {{"a + b", {0, 1}, DType::f32, {}},
                                    {"a < b", {3, 2}, DType::boolean, {}},
                                    {"a ? b : c", {4, 3, 0}, DType::f32, {}}},
                          .outputs = {5, 4}};
  EXPECT_FALSE(cuda::compile_source(cuda::chain_source(chain), "sm_90").empty());
}

// Sixteen-bit floats beside f32, neighbours taken eight at a time, a column's value for all, and every other element.
TEST(CudaElementwise, ChainsOfHalvesCompile) {
  for (const DType half : {DType::bf16, DType::f16}) {
    const cuda::Chain chain{
        .shape = {512, 1024},
        .operands = {{half, {1024, 1}}, {DType::f32, {0, 1}}, {half, {1, 0}}, {DType::f32, {2048, 2}}},
        .steps = {{"a + b", {0, 1}, DType::f32, {}},
                  {"a * b", {4, 2}, half, {}},
                  {"a > b ? a : T(0)", {5, 3}, DType::f32, {}},
                  {"p * tanh(a)", {6}, half, {0.5}}},
        .outputs = {7, 4}};
    const std::string source = cuda::chain_source(chain);
    EXPECT_NE(source.find("Pack"), std::string::npos);
    EXPECT_FALSE(cuda::compile_source(source, "sm_90").empty());
    cuda::ChainFold fold{{{512, 1024}, {{half, {1024, 1}}}, {{"a", {0}, half, {}}}, {1}}, {1}, cuda::Fold::mean};
    EXPECT_FALSE(cuda::compile_source(cuda::fold_source(fold), "sm_90").empty());
  }
}

// Results that lie channels last are written in the order of memory, with the channels as neighbours.
TEST(CudaElementwise, ChainsFollowTheOrderOfTheirResults) {
  const Shape strides{64 * 49, 1, 7 * 64, 64};
  const cuda::Chain chain = cuda::in_order_of({.shape = {8, 64, 7, 7},
                                               .operands = {{DType::bf16, strides}},
                                               .steps = {{"-a", {0}, DType::bf16, {}}},
                                               .outputs = {1}},
                                              strides);
  EXPECT_EQ(chain.shape, (Shape{8, 7, 7, 64}));
  EXPECT_EQ(chain.operands[0].strides, contiguous_strides(chain.shape));
  EXPECT_FALSE(cuda::compile_source(cuda::chain_source(chain), "sm_90").empty());
}

TEST(CudaElementwise, SaysWhatIsWrongWithAnExpression) {
  try {
    cuda::compile_source(cuda::chain_source(alone("no_such_function(a)", 1, DType::f32, DType::f32)), "sm_90");
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no_such_function"), std::string::npos);
  }
}

}  // namespace
}  // namespace starling::testing
