// Digits that rounding would lose on the way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cuda/cuda_testing.h"
#include "starling/starling.h"

namespace starling::testing {
namespace {

class CudaRounding : public OnGpu {};

// softmax - onehot of each row, in f64.
std::vector<double> exact_gradient(const Tensor& logits, const Tensor& labels) {
  std::vector<double> x = logits.to_vector();
  const std::vector<double> label = labels.to_vector();
  const auto classes = static_cast<std::size_t>(logits.size(1));
  for (std::size_t row = 0; row < label.size(); ++row) {
    double* const at = x.data() + row * classes;
    const double largest = *std::max_element(at, at + classes);
    double sum = 0;
    for (std::size_t i = 0; i < classes; ++i) sum += at[i] = std::exp(at[i] - largest);
    for (std::size_t i = 0; i < classes; ++i) at[i] = at[i] / sum - (static_cast<double>(i) == label[row] ? 1 : 0);
  }
  return x;
}

// The numbers of classes have kernels of their own. A log-sum-exp of 1e4 is rounded by 5e-4.
TEST_F(CudaRounding, GradientsOfCrossEntropyKeepTheirDigitsWhereverTheLogitsLie) {
  manual_seed(3);
  for (const std::int64_t classes : {3, 10, 40, 300, 2048}) {
    for (const double shift : {0.0, 20.0, 1e4, -1e4}) {
      const Tensor logits = add(normal({37, classes}), shift);
      Tensor labels = empty({37}, DType::i64);
      for (std::int64_t row = 0; row < 37; ++row) labels.data<std::int64_t>()[row] = row * 7 % classes;
      const Tensor x = to(logits, kGpu).detach().set_requires_grad(true);
      cross_entropy(x, to(labels, kGpu), {.reduction = Reduction::sum}).backward();
      const std::vector<double> got = to(x.grad(), kCpu).to_vector(), want = exact_gradient(logits, labels);
      double worst = 0;
      for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - want[i]));
      EXPECT_LE(worst, 3e-6) << classes << " classes, logits near " << shift;
    }
  }
}

// Of numbers so close to the end of the range some would be rounded to it.
TEST_F(CudaRounding, UniformNumbersStayBelowTheEndOfTheirRange) {
  manual_seed(3);
  default_generator().to(kGpu);
  const Tensor drawn = to(uniform({1 << 22}, {.low = 100, .high = 101}), kCpu);
  default_generator().to(kCpu);
  const std::vector<double> numbers = drawn.to_vector();
  const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
  EXPECT_GE(*least, 100);
  EXPECT_LT(*most, 101);
  EXPECT_EQ(static_cast<float>(*most), std::nextafter(101.0F, 0.0F)) << "control: they come as close as they can";
}

}  // namespace
}  // namespace starling::testing
