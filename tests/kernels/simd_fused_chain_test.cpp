#include <gtest/gtest.h>

#include "kernels/simd_testing.h"
#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/fused_chain.h"
#include "starling/kernels/cpu/simd/vector_ops.h"

namespace starling {
namespace {

using testing::fill_random;
using testing::Unaligned;

BlockTable blocks() {
  BlockTable table;
  register_cpu_blocks(table);
  return table;
}

// y = relu(x + bias) * row_scale * 0.5, mask = y > x
FusedChain bias_relu_scale() {
  const BlockTable table = blocks();
  const auto fn = [&](const char* name) { return table.find(name)->of(BlockType::f32); };
  return FusedChain({.inputs = {{4, Spread::full}, {4, Spread::row}, {4, Spread::column}, {4, Spread::scalar}},
                     .temporaries = 2,
                     .output_bytes = {4, 1},
                     .steps = {{fn("add"), {0, 1, -1}, 4},
                               {fn("relu"), {4, -1, -1}, 5},
                               {fn("mul"), {5, 2, -1}, 4},
                               {fn("mul"), {3, 4, -1}, 6},
                               {fn("gt"), {6, 0, -1}, 7}}});
}

void expect_chain(std::int64_t rows, std::int64_t cols, int threads) {
  ThreadScope scope(threads);
  const FusedChain chain = bias_relu_scale();
  Unaligned<float> x(rows * cols), bias(cols), scale(rows), y(rows * cols);
  Unaligned<std::uint8_t> mask(rows * cols, 3);
  const float half = 0.5f;
  fill_random(x.data(), x.size(), -1, 1, 1);
  fill_random(bias.data(), cols, -1, 1, 2);
  fill_random(scale.data(), rows, -3, 3, 3);
  std::vector<std::byte> scratch(chain.scratch_bytes(threads));
  const void* inputs[] = {x.data(), bias.data(), scale.data(), &half};
  void* outputs[] = {y.data(), mask.data()};
  chain.run(inputs, outputs, rows, cols, scratch.data());
  EXPECT_TRUE(y.intact() && mask.intact());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t i = r * cols + c;
      const float want = 0.5f * (std::max(x[i] + bias[c], 0.0f) * scale[r]);
      ASSERT_EQ(y[i], want) << rows << " x " << cols << " at " << r << ", " << c;
      ASSERT_EQ(mask[i], want > x[i] ? 1 : 0);
    }
  }
}

TEST(FusedChain, SpreadsRowsAndColumnsOverAnyShape) {
  for (const int threads : {1, 2, 3}) {
    for (const std::int64_t cols : {1, 3, 10, 100, 512, 513, 1024, 1025, 3000}) {
      for (const std::int64_t rows : {0, 1, 2, 7, 120}) expect_chain(rows, cols, threads);
    }
  }
}

TEST(FusedChain, RunsFlatWithoutSpreadInputs) {
  const BlockTable table = blocks();
  const FusedChain chain({.inputs = {{8, Spread::full}, {8, Spread::scalar}},
                          .temporaries = 1,
                          .output_bytes = {8},
                          .steps = {{table.find("exp")->of(BlockType::f64), {0, -1, -1}, 2},
                                    {table.find("div")->of(BlockType::f64), {2, 1, -1}, 3}}});
  const std::int64_t n = 50021;
  std::vector<double> x(n), y(n);
  fill_random(x.data(), n, -2, 2);
  const double three = 3;
  for (const int threads : {1, 2, 3}) {
    ThreadScope scope(threads);
    std::vector<std::byte> scratch(chain.scratch_bytes(threads));
    const void* inputs[] = {x.data(), &three};
    void* outputs[] = {y.data()};
    std::fill(y.begin(), y.end(), 0.0);
    chain.run(inputs, outputs, 1, n, scratch.data());
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], std::exp(x[i]) / 3, 1e-14);
  }
}

TEST(FusedChain, WritesItsOutputOverAFullInput) {
  const BlockTable table = blocks();
  const FusedChain chain({.inputs = {{4, Spread::full}},
                          .output_bytes = {4},
                          .steps = {{table.find("mul")->of(BlockType::f32), {0, 0, -1}, 1}}});
  std::vector<float> x(5000, 3.0f);
  std::vector<std::byte> scratch(chain.scratch_bytes(num_threads()));
  const void* inputs[] = {x.data()};
  void* outputs[] = {x.data()};
  chain.run(inputs, outputs, 50, 100, scratch.data());
  for (float v : x) ASSERT_EQ(v, 9.0f);
}

TEST(FusedChain, RefusesStepsThatReadWhatIsNotYetWritten) {
  const BlockTable table = blocks();
  const BlockFn exp = table.find("exp")->of(BlockType::f32);
  const auto build = [&](int in, int out) {
    return FusedChain(
        {.inputs = {{4, Spread::full}}, .temporaries = 1, .output_bytes = {4}, .steps = {{exp, {in, -1, -1}, out}}});
  };
  EXPECT_NO_THROW(build(0, 2));
  EXPECT_THROW(build(1, 2), Error);
  EXPECT_THROW(build(0, 0), Error);
  EXPECT_THROW(build(0, 3), Error);
  EXPECT_THROW(build(5, 2), Error);
}

}  // namespace
}  // namespace starling
