#include <gtest/gtest.h>

#include "starling/base/error.h"
#include "starling/kernels/cuda/elementwise.h"
#include "starling/kernels/cuda/run_time_kernel.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

// Tests that only compile device code, which needs no GPU.

cuda::Chain alone(const std::string& expression, std::size_t operands, DType dtype, DType result) {
  cuda::Chain chain{
      .shape = {6, 7}, .operands = {}, .steps = {{expression, {}, result}}, .outputs = {static_cast<int>(operands)}};
  for (std::size_t i = 0; i < operands; ++i) {
    chain.operands.push_back({dtype, i == 0 ? Shape{7, 1} : Shape{0, 1}});
    chain.steps[0].in.push_back(static_cast<int>(i));
  }
  return chain;
}

TEST(CudaElementwise, EveryExpressionCompiles) {
  kernels::kernel_table();
  int compiled = 0;
  for (const auto* op : op_registry().sorted()) {
    const std::string* expression = cuda::elementwise_expression(op->name);
    if (expression == nullptr) continue;
    ++compiled;
    const auto chain = alone(*expression, op->inputs.size(), DType::f32, DType::f32);
    EXPECT_FALSE(cuda::compile_source(cuda::chain_source(chain), "sm_90").empty()) << op->name;
  }
  EXPECT_GE(compiled, 20);
}

TEST(CudaElementwise, ChainsCompileToOneKernel) {
  const cuda::Chain chain{
      .shape = {1024, 1024},
      .operands = {{DType::f32, {1024, 1}}, {DType::f32, {0, 1}}, {DType::i64, {0, 0}}},
      .steps = {{"a + b", {0, 1}, DType::f32}, {"a < b", {3, 2}, DType::boolean}, {"a ? b : c", {4, 3, 0}, DType::f32}},
      .outputs = {5, 4}};
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
