#include <gtest/gtest.h>

#include <random>

#include "runtime/step_testing.h"
#include "starling/dist/strategy/data_parallel.h"
#include "starling/ops/api/normalize.h"
#include "starling/ops/api/shape_ops.h"

namespace starling::dist {
namespace {

using testing::relative_l2;

struct Net {
  Tensor x, weight, bias, scale, aim;
  explicit Net(std::int64_t rows) {
    std::mt19937 random(3);
    std::normal_distribution<double> normal(1, 2);
    const auto draw = [&](const Shape& shape) {
      std::vector<double> values(static_cast<std::size_t>(shape.numel()));
      for (auto& v : values) v = normal(random);
      return from_doubles(values, shape, DType::f64);
    };
    x = draw({rows, 3, 2, 2});
    aim = draw({rows, 3, 2, 2});
    scale = draw({2, 2}).set_requires_grad().set_name("scale");
    weight = draw({3}).set_requires_grad().set_name("weight");
    bias = draw({3}).set_requires_grad().set_name("bias");
  }

  // y, mean, var, and the gradients of the parameters.
  TensorList run(const Tensor& in, const Tensor& to, bool global) const {
    const auto [y, mean, var] = batch_norm(mul(in, scale), weight, bias, {.global_statistics = global});
    const Tensor inputs[] = {weight, bias, scale};
    const Tensor apart = sub(y, to), loss[] = {sum(mul(apart, apart))};
    TensorList grads = gradients(loss, inputs);
    return {y, mean, var, grads[0], grads[1], grads[2]};
  }
};

TEST(BatchNorm, WithGlobalStatisticsIsWhatOneProcessComputes) {
  for (const int workers : {2, 3}) {
    for (const bool deterministic : {false, true}) {
      const Net one(8), many(8);
      auto single = compile([&](const Tensor& x, const Tensor& to) { return one.run(x, to, false); });
      auto parallel = compile([&](const Tensor& x, const Tensor& to) { return many.run(x, to, true); },
                              {.strategy = data_parallel({.workers = workers, .deterministic = deterministic})});
      const TensorList want = single(one.x, one.aim), got = parallel(many.x, many.aim);
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_LE(relative_l2(got[i], want[i]), 1e-12) << "result " << i << " of " << workers << " workers";
    }
  }
}

TEST(BatchNorm, WithLocalStatisticsTreatsEachRanksRowsAlone) {
  const Net whole(8);
  auto parallel = compile([&](const Tensor& x, const Tensor& to) { return whole.run(x, to, false); },
                          {.strategy = data_parallel({.workers = 2})});
  const TensorList got = parallel(whole.x, whole.aim);
  const auto half = [&](const Tensor& t, std::int64_t k) {
    return slice(t, {.axis = 0, .begin = 4 * k, .end = 4 * k + 4});
  };
  const TensorList a = whole.run(half(whole.x, 0), half(whole.aim, 0), false);
  const TensorList b = whole.run(half(whole.x, 1), half(whole.aim, 1), false);
  const Tensor rows[] = {a[0], b[0]};
  EXPECT_LE(relative_l2(got[0], concat(rows)), 1e-12);
  for (const std::size_t i : {1u, 2u}) EXPECT_LE(relative_l2(got[i], mul(add(a[i], b[i]), 0.5)), 1e-12);
  for (const std::size_t i : {3u, 4u, 5u}) EXPECT_LE(relative_l2(got[i], add(a[i], b[i])), 1e-12);
}

TEST(BatchNorm, WithLocalStatisticsRanksWithoutRowsDoNotCount) {
  const Net whole(3);
  auto parallel = compile([&](const Tensor& x, const Tensor& to) { return whole.run(x, to, false); },
                          {.strategy = data_parallel({.workers = 4})});
  const TensorList got = parallel(whole.x, whole.aim);
  TensorList want;
  for (std::int64_t r = 0; r < 3; ++r) {
    const auto row = [&](const Tensor& t) { return slice(t, {.axis = 0, .begin = r, .end = r + 1}); };
    const TensorList one = whole.run(row(whole.x), row(whole.aim), false);
    for (std::size_t i = 1; i < one.size(); ++i) {
      const Tensor term = i < 3 ? mul(one[i], 1.0 / 3) : one[i];  // averages of statistics, sums of gradients
      if (r == 0)
        want.push_back(term);
      else
        want[i - 1] = add(want[i - 1], term);
    }
  }
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LE(relative_l2(got[i + 1], want[i]), 1e-12) << i;
}

TEST(LayerNorm, OfSplitRowsIsTheSame) {
  const Net s(6);
  const auto f = [](const Tensor& x, const Tensor& w, const Tensor& b) {
    const Tensor y = layer_norm(transpose(x, {0, 3, 2, 1}), w, b);
    const Tensor inputs[] = {w, b}, loss[] = {sum(mul(y, y))};
    TensorList grads = gradients(loss, inputs);
    return TensorList{y, grads[0], grads[1]};
  };
  auto single = compile([&](const Tensor& x) { return f(x, s.weight, s.bias); });
  auto parallel =
      compile([&](const Tensor& x) { return f(x, s.weight, s.bias); }, {.strategy = data_parallel({.workers = 2})});
  const TensorList want = single(s.x), got = parallel(s.x);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LE(relative_l2(got[i], want[i]), 1e-12) << i;
}

}  // namespace
}  // namespace starling::dist
