#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "starling/base/parallel.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/conv.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

struct Layer {
  std::int64_t channels, size, out, kernel, stride, padding, groups;
  DType dtype = DType::f32;
  const char* activation = "";
};

struct Made {
  Planned planned;
  std::vector<ArgDesc> in, out;
};

Made plan(const Layer& l, int threads) {
  const TensorType x{l.dtype, {4, l.channels, l.size, l.size}};
  const TensorType w{l.dtype, {l.out, l.channels / l.groups, l.kernel, l.kernel}};
  const op::Conv2dAttrs attrs{{l.stride, l.stride}, {l.padding, l.padding}, {1, 1}, l.groups, Symbol(l.activation)};
  const OpDef& op = find_op("conv2d");
  const TensorType types[] = {x, w};
  Made made;
  made.in = {dense(x), dense(w)};
  made.out = {dense(infer(op, types, attrs)[0])};
  made.planned = plan_kernel(op, DeviceKind::cpu, attrs, made.in, made.out, {.threads = threads});
  return made;
}

TEST(ConvolutionKernels, AreChosenByShape) {
  const auto name = [](const Layer& layer) { return plan(layer, 2).planned.kernel; };
  EXPECT_EQ(name({64, 28, 64, 3, 1, 1, 1}), "winograd");
  EXPECT_EQ(name({64, 28, 64, 3, 1, 1, 1, DType::f32, "relu"}), "winograd");
  EXPECT_EQ(name({64, 28, 64, 3, 1, 1, 1, DType::f32, "tanh"}), "im2col");
  EXPECT_EQ(name({64, 28, 64, 3, 1, 1, 1, DType::f64}), "im2col");
  EXPECT_EQ(name({64, 28, 128, 3, 2, 1, 1}), "panels");
  EXPECT_EQ(name({256, 7, 64, 1, 1, 0, 1}), "panels");
  EXPECT_EQ(name({64, 56, 64, 1, 1, 0, 1}), "im2col");
  EXPECT_EQ(name({32, 28, 32, 3, 1, 1, 32}), "depthwise");
  EXPECT_EQ(name({3, 32, 20, 5, 1, 0, 1}), "im2col");
}

struct alignas(64) Line {
  float values[16];
};

std::vector<float> run(const Layer& layer, int threads) {
  const ThreadScope scope(threads);
  const Made made = plan(layer, threads);
  const auto filled = [](std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      values[static_cast<std::size_t>(i)] = static_cast<float>(i * 7919 % 1009) / 1009 - 0.5F;
    return values;
  };
  auto x = filled(made.in[0].shape.numel()), w = filled(made.in[1].shape.numel());
  std::vector<float> y(static_cast<std::size_t>(made.out[0].shape.numel()));
  std::vector<Line> scratch(made.planned.plan->scratch_bytes / 64 + 1);
  void* in[] = {x.data(), w.data()};
  void* out[] = {y.data()};
  RunContext context;
  made.planned.plan->run({in, out, scratch.data(), context});
  return y;
}

TEST(ConvolutionKernels, GiveTheSameBitsAgainWithTheSameThreads) {
  for (const Layer& layer : {Layer{64, 12, 64, 3, 1, 1, 1}, Layer{32, 13, 64, 3, 2, 1, 1},
                             Layer{32, 9, 32, 3, 1, 1, 32}, Layer{8, 20, 20, 5, 1, 0, 1}}) {
    const auto first = run(layer, 3), second = run(layer, 3);
    EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size() * sizeof(float)), 0)
        << plan(layer, 3).planned.kernel;
  }
}

}  // namespace
}  // namespace starling::kernels
