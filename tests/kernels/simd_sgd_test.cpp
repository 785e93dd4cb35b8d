#include <gtest/gtest.h>

#include "kernels/simd_testing.h"
#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/update/sgd.h"

namespace starling::kernels {
namespace {

using testing::fill_random;
using testing::for_each_target;
using testing::Unaligned;

template <class T>
void expect_update(const SgdOptions& options, int threads, double tolerance) {
  ThreadScope scope(threads);
  const std::int64_t sizes[] = {1, 0, 17, 40000, 16, 33, 20001};
  std::vector<Unaligned<T>> w, g, v;
  std::vector<std::vector<double>> want;
  std::vector<SgdTensor<T>> tensors;
  const double lr = 0.1;
  unsigned seed = 0;
  for (const std::int64_t n : sizes) {
    for (auto* arrays : {&w, &g, &v}) {
      arrays->emplace_back(n);
      fill_random(arrays->back().data(), n, -1, 1, ++seed);
    }
  }
  for (std::size_t k = 0; k < w.size(); ++k) {
    tensors.push_back({w[k].data(), g[k].data(), options.momentum == 0 ? nullptr : v[k].data(), sizes[k]});
    for (std::int64_t i = 0; i < sizes[k]; ++i) {
      const double decayed = static_cast<double>(g[k][i]) + options.weight_decay * static_cast<double>(w[k][i]);
      const double velocity = (options.momentum == 0 ? 0 : options.momentum * static_cast<double>(v[k][i])) + decayed;
      const double direction = options.nesterov ? decayed + options.momentum * velocity : velocity;
      want.resize(k + 1);
      want[k].push_back(static_cast<double>(w[k][i]) - lr * direction);
    }
  }
  want.resize(w.size());
  sgd_update<T>(tensors, lr, options);
  for (std::size_t k = 0; k < w.size(); ++k) {
    EXPECT_TRUE(w[k].intact() && v[k].intact());
    for (std::int64_t i = 0; i < sizes[k]; ++i) ASSERT_NEAR(w[k][i], want[k][static_cast<std::size_t>(i)], tolerance);
  }
}

TEST(Sgd, UpdatesManyTensorsAsTheFormulaSays) {
  for_each_target([] {
    for (const int threads : {1, 2, 3}) {
      for (const SgdOptions& options : {SgdOptions{}, SgdOptions{.weight_decay = 0.01}, SgdOptions{.momentum = 0.9},
                                        SgdOptions{.momentum = 0.9, .weight_decay = 0.01},
                                        SgdOptions{.momentum = 0.9, .weight_decay = 0.01, .nesterov = true}}) {
        expect_update<float>(options, threads, 1e-6);
        expect_update<double>(options, threads, 1e-14);
      }
    }
  });
}

TEST(Sgd, KeepsTheVelocityAndReadsTheRateAtEachCall) {
  std::vector<float> w(20, 1.0f), g(20, 2.0f), v(20, 0.0f);
  const SgdTensor<float> tensors[] = {{w.data(), g.data(), v.data(), 20}};
  double lr = 0.5;
  sgd_update<float>(tensors, lr, {.momentum = 0.5});
  EXPECT_EQ(v[19], 2.0f);
  EXPECT_EQ(w[19], 0.0f);
  lr = 1;
  sgd_update<float>(tensors, lr, {.momentum = 0.5});
  EXPECT_EQ(v[19], 3.0f);
  EXPECT_EQ(w[19], -3.0f);
}

TEST(Sgd, RefusesMomentumWithoutAVelocity) {
  float w = 1, g = 1;
  const SgdTensor<float> tensors[] = {{&w, &g, nullptr, 1}};
  EXPECT_THROW(sgd_update<float>(tensors, 1, {.momentum = 0.9}), Error);
}

}  // namespace
}  // namespace starling::kernels
