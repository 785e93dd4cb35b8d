#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "runtime/placement_testing.h"
#include "runtime/step_testing.h"
#include "starling/tensor/allocator.h"

namespace starling {
namespace {

using testing::Bench;
using testing::bit_equal;
using testing::cpu;
using testing::logical_cpus;
using testing::PlacedFunction;

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Placed, TwoDevicesAreBusyAtTheSameTime) {
  auto f = [](std::span<const Tensor> in) {
    const Tensor a = delay(in[0], 30), b = delay(in[0], 31);
    return TensorList{add(a, b)};
  };
  const Tensor x = normal({16});
  PlacedFunction placed(f, {&x, 1}, logical_cpus(2));
  Profiler profiler;
  placed.program->set_profiler(&profiler);
  const Tensor y = placed({&x, 1})[0];
  EXPECT_TRUE(bit_equal(y, add(x, x)));
  std::int64_t together = 0;
  for (const auto& a : profiler.events()) {
    for (const auto& b : profiler.events()) {
      if (a.rank != 0 || b.rank != 1 || std::string(a.name) != "delay" || std::string(b.name) != "delay") continue;
      together = std::max(together, std::min(a.end_ns, b.end_ns) - std::max(a.begin_ns, b.begin_ns));
    }
  }
  EXPECT_GT(together, 20'000'000) << profiler.chrome_trace();
}

TEST(Placed, OneTransferServesAllReadersOnADevice) {
  auto f = [](std::span<const Tensor> in) {
    const Tensor x = exp(in[0]);
    TensorList out;
    Tensor sum;
    {
      const DeviceScope there(cpu(1));
      for (int i = 0; i < 5; ++i) {
        const Tensor y = delay(x, 1 + i);
        sum = sum.defined() ? add(sum, y) : y;
      }
    }
    return TensorList{sum};
  };
  const Tensor x = normal({64});
  auto options = logical_cpus(2);
  options.constraints = {{"op:exp", cpu(0)}};
  PlacedFunction placed(f, {&x, 1}, options);
  EXPECT_EQ(placed.count_on(1, "delay"), 5);
  EXPECT_EQ(placed.count_on(0, "send"), 1);  // exp's result, once for five readers
  EXPECT_EQ(placed.count_on(1, "recv"), 1);
  EXPECT_EQ(placed.count_on(1, "send"), 1);  // the sum, home
  EXPECT_EQ(placed.count_on(0, "recv"), 1);
  const Tensor e = exp(x);
  Tensor want = e;
  for (int i = 1; i < 5; ++i) want = add(want, e);
  EXPECT_TRUE(bit_equal(placed({&x, 1})[0], want));
}

// Random graphs of sleeping nodes: threads that sleep use no CPU, so the prediction holds on a busy machine too.
TEST(Placed, PredictedMakespanIsWithin20PercentOfTheMeasured) {
  std::mt19937 random(4);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int trial = 0; trial < 4; ++trial) {
    struct Made {
      int a, b, ms;
    };
    std::vector<Made> plan;
    for (int i = 0; i < 10; ++i) plan.push_back({draw(0, i), draw(0, i), draw(8, 24)});
    auto f = [&](std::span<const Tensor> in) {
      TensorList values{in[0]};
      for (const auto& made : plan) {
        const auto a = values[static_cast<std::size_t>(made.a)], b = values[static_cast<std::size_t>(made.b)];
        values.push_back(delay(add(a, b), made.ms + 0.001 * static_cast<double>(values.size())));
      }
      Tensor sum = values[1];
      for (std::size_t i = 2; i < values.size(); ++i) sum = add(sum, values[i]);
      return TensorList{sum};
    };
    const Tensor x = normal({8});
    PlacedFunction placed(f, {&x, 1}, logical_cpus(2 + trial % 2));
    double best = 1e9;
    for (int run = 0; run < 3; ++run) {
      const auto start = std::chrono::steady_clock::now();
      placed({&x, 1});
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    const double predicted = placed.program->placement().makespan;
    double alone = 0;
    for (const auto& made : plan) alone += made.ms / 1e3;
    EXPECT_LT(predicted, 0.95 * alone);
    EXPECT_NEAR(best, predicted, 0.2 * predicted) << "trial " << trial << "\n" << placed.program->explain();
  }
}

// Chains of the usual ops over a few values, variables among them, some of them updated.
struct RandomProgram {
  std::vector<Tensor> variables;
  Tensor x;
  unsigned seed;

  explicit RandomProgram(unsigned s) : seed(s) {
    manual_seed(s);
    x = normal({6, 8});
    for (int i = 0; i < 3; ++i) {
      variables.push_back(normal({8, 8}, {.stddev = 0.4}));
      variables.back().set_name("v" + std::to_string(i));
    }
    default_generator().seed(s);
  }

  TensorList operator()(std::span<const Tensor> in) const {
    std::mt19937 random(seed);
    const auto draw = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    std::vector<Tensor> values{in[0]};
    for (int i = 0; i < 22; ++i) {
      const Tensor a = values[draw(values.size())], b = values[draw(values.size())];
      const Tensor& w = variables[draw(3)];
      const NameScope scope("s" + std::to_string(draw(4)));
      switch (random() % 9) {
        case 0: values.push_back(add(a, b)); break;
        case 1: values.push_back(tanh(mul(a, b))); break;
        case 2: values.push_back(matmul(a, w)); break;
        case 3: values.push_back(matmul(a, transpose(w, 0, 1))); break;
        case 4: values.push_back(mul(tanh(a), sum(b, {.axes = {1}, .keepdim = true}))); break;
        case 5: values.push_back(dropout(a, 0.3)); break;
        case 6: assign(w, tanh(add(w, matmul(transpose(a, 0, 1), b)))); break;
        case 7: values.push_back(add(slice(a, {0, 0}, {3, 8}), slice(b, {3, 0}, {6, 8}))); values.back() = concat({values.back(), values.back()}, 0); break;
        default: values.push_back(reshape(add(reshape(a, {48}), 0.5), {6, 8})); break;
      }
    }
    TensorList out;
    for (std::size_t i = values.size() - 3; i < values.size(); ++i) out.push_back(values[i]);
    return out;
  }
};

}  // namespace
}  // namespace starling
