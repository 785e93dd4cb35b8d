#include "starling/ops/api/loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "starling/autograd/autograd.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/softmax.h"
#include "starling/ops/api/unary.h"
#include "starling/tensor/tensor.h"

namespace starling::testing {
namespace {

// The numbers that losses are compared with are PyTorch's, for operands of sin(0), sin(1), …
Tensor sines(const Shape& shape, double scale = 1) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = scale * std::sin(static_cast<double>(i));
  return from_doubles(values, shape, DType::f64);
}

Tensor integers(std::vector<std::int64_t> values, const Shape& shape) { return from_host<std::int64_t>(values, shape); }

void expect_values(const Tensor& got, std::vector<double> want) {
  const auto values = got.to_vector();
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(values[i], want[i], 1e-10) << i;
}

class Labelled : public ::testing::Test {
 protected:
  Tensor x = sines({4, 3});
  Tensor y = integers({0, 2, 1, 2}, {4});
  Tensor weight = from_doubles(std::vector<double>{0.5, 1, 2}, {3}, DType::f64);
};

TEST_F(Labelled, CrossEntropyIsAWeightedMean) {
  expect_values(cross_entropy(x, y), {1.584132229080});
  expect_values(cross_entropy(x, y, {.weight = weight}), {1.638353668141});
  expect_values(cross_entropy(x, y, {.ignore_index = 2}), {1.391490380796});
  expect_values(cross_entropy(x, y, {.label_smoothing = 0.2}), {1.512182532211});
  expect_values(cross_entropy(x, y, {.ignore_index = 2, .label_smoothing = 0.2}), {1.353265782042});
  expect_values(cross_entropy(x, y, {.weight = weight, .ignore_index = 2, .label_smoothing = 0.2}), {1.321333820605});
}

TEST_F(Labelled, CrossEntropyGivesSumsAndRows) {
  CrossEntropyOptions options{.weight = weight, .ignore_index = 2, .label_smoothing = 0.2};
  options.reduction = Reduction::sum;
  expect_values(cross_entropy(x, y, options), {1.982000730907});
  options.reduction = Reduction::none;
  expect_values(cross_entropy(x, y, options), {0.936229346046, 0, 1.045771384861, 0});
}

TEST_F(Labelled, CrossEntropyTakesFurtherDimensions) {
  const Tensor image = sines({2, 3, 4}), labels = integers({0, 1, 2, 0, 1, 2, 0, 1}, {2, 4});
  expect_values(cross_entropy(image, labels, {.weight = weight, .label_smoothing = 0.1}), {1.375745227486});
  expect_values(cross_entropy(image, labels, {.reduction = Reduction::none}),
                {1.425195817423, 2.397121844614, 1.884065495950, 1.096795185736, 1.629784127158, 0.601568504983,
                 0.433935538024, 1.104831667692});
}

TEST_F(Labelled, CrossEntropyTakesProbabilities) {
  const Tensor target = softmax(sines({4, 3}, 2));
  expect_values(cross_entropy(x, target, {.weight = weight, .label_smoothing = 0.1}), {1.000991581747});
  expect_values(cross_entropy(sines({2, 3, 4}), softmax(sines({2, 3, 4}, 2), 1)), {0.680287898827});
}

TEST_F(Labelled, CrossEntropyRefusesWhatMakesNoSense) {
  EXPECT_THROW(cross_entropy(x, y, {.weight = sines({4})}), Error);
  EXPECT_THROW(cross_entropy(x, y, {.label_smoothing = 1.5}), Error);
  EXPECT_THROW(cross_entropy(x, sines({4, 3}), {.ignore_index = 1}), Error);
  EXPECT_THROW(cross_entropy(x, integers({0, 2, -100, 2}, {4})), Error);
  EXPECT_THROW(cross_entropy(sines({2, 3, 4}), integers({0, 1}, {2})), Error);
}

TEST_F(Labelled, NllIsTheSameFromLogProbabilities) {
  const Tensor logs = log_softmax(x);
  expect_values(nll(logs, y, {.weight = weight}), {1.638353668141});
  expect_values(nll(logs, y, {.weight = weight, .ignore_index = 1, .reduction = Reduction::none}),
                {0.879131896271, 3.308170869170, 0, 3.798925440287});
}

TEST(Losses, OfElementsDivideByTheirWeights) {
  const double targets[] = {1, 0, 0, 1, 1, 0};
  const Tensor x = sines({3, 2}), target = from_doubles(targets, {3, 2}, DType::f64);
  const Tensor weight = from_doubles(std::vector<double>{1, 2, 0.5}, {3, 1}, DType::f64);
  const Tensor each = bce_with_logits(x, target, {}, {.reduction = Reduction::none});
  const auto rows = each.to_vector();
  const double want = ((rows[0] + rows[1]) + 2 * (rows[2] + rows[3]) + 0.5 * (rows[4] + rows[5])) / 7;
  expect_values(bce_with_logits(x, target, {}, {.weight = weight}), {want});
  expect_values(bce(sigmoid(x), target), {bce_with_logits(x, target).item()});
  expect_values(mse(x, target, {.reduction = Reduction::sum}), {mse(x, target).item() * 6});
  EXPECT_THROW(l1(sines({0, 3}), sines({0, 3})), Error);
}

TEST(Ctc, AgreesWithPyTorchThroughLogSoftmax) {
  Tensor raw = sines({6, 2, 4});
  raw.set_requires_grad();
  const Tensor targets = integers({1, 2, 2, 3, 1, 0}, {2, 3});
  const Tensor losses =
      ctc(log_softmax(raw), targets, integers({6, 5}, {2}), integers({3, 2}, {2}), {}, {.reduction = Reduction::none});
  expect_values(losses, {5.602497438922, 3.885817074488});
  losses.backward(from_doubles(std::vector<double>{1, 1}, {2}, DType::f64));
  const auto grad = raw.grad().to_vector();
  expect_values(from_doubles(std::vector<double>(grad.begin() + 16, grad.begin() + 24), {8}, DType::f64),
                {-0.286727122104, 0.061119969208, -0.194415332480, 0.420022485376, -0.077187364168, -0.076961830442,
                 0.159342016443, -0.005192821833});
}

TEST(Ctc, RefusesBadLengthsAndLabels) {
  const Tensor x = sines({4, 1, 3});
  const auto loss = [&](std::int64_t label, std::int64_t time, std::int64_t length) {
    return ctc(x, integers({label}, {1, 1}), integers({time}, {1}), integers({length}, {1}));
  };
  EXPECT_NO_THROW(loss(1, 4, 1));
  EXPECT_THROW(loss(0, 4, 1), Error);
  EXPECT_THROW(loss(3, 4, 1), Error);
  EXPECT_THROW(loss(1, 5, 1), Error);
  EXPECT_THROW(loss(1, 4, 2), Error);
  EXPECT_NO_THROW(loss(7, 4, 0)) << "labels beyond the length are padding";
}

// Sums beyond 65504, whose quotients are small numbers.
class LossOfHalves : public ::testing::TestWithParam<DType> {
 protected:
  static constexpr std::int64_t kMany = 100000;
  Tensor ones = full({kMany}, 1, GetParam()), zeros = full({kMany}, 0, GetParam());
  void expect_number(const Tensor& loss, double want) {
    EXPECT_EQ(loss.dtype(), GetParam());
    EXPECT_NEAR(loss.item(), want, 0.01 * std::abs(want));
  }
};

TEST_P(LossOfHalves, MeansOfDifferencesAreDividedBeforeTheyAreRounded) {
  expect_number(mse(ones, zeros), 1);
  expect_number(mse(ones, zeros, {.weight = ones}), 1);
  expect_number(l1(ones, zeros), 1);
  expect_number(l1(ones, zeros, {.weight = ones}), 1);
  EXPECT_EQ(mse(ones, cast(zeros, DType::f32)).dtype(), DType::f32);
  EXPECT_EQ(mse(ones, zeros, {.reduction = Reduction::none}).dtype(), GetParam());
}

TEST_P(LossOfHalves, SmallGradientsOfMeansReachTheOperands) {
  Tensor x = full({kMany}, 1, GetParam());
  x.set_requires_grad();
  mse(x, zeros).backward();
  EXPECT_EQ(x.grad().dtype(), GetParam());
  EXPECT_NEAR(x.grad().to_vector()[7], 2e-5, 1e-6);
}

TEST_P(LossOfHalves, MeansOverLabelsAreDividedBeforeTheyAreRounded) {
  const Tensor logits = full({kMany, 2}, 0, GetParam()), labels = full({kMany}, 1, DType::i64);
  const Tensor weight = full({2}, 1, GetParam());
  expect_number(cross_entropy(logits, labels), std::log(2));
  expect_number(cross_entropy(logits, labels, {.weight = weight}), std::log(2));
  expect_number(cross_entropy(logits, labels, {.label_smoothing = 0.1}), std::log(2));
  expect_number(cross_entropy(logits, full({kMany, 2}, 0.5, GetParam())), std::log(2));
  const Tensor log_probs = full({kMany, 2}, -1, GetParam());
  expect_number(nll(log_probs, labels), 1);
  expect_number(nll(log_probs, labels, {.weight = weight}), 1);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, LossOfHalves, ::testing::Values(DType::f16, DType::bf16),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(Triplet, HasNoGradientAlongADistanceOfZero) {
  const Tensor at = from_doubles(std::vector<double>{1, 2}, {1, 2}, DType::f64);
  Tensor anchor = at.detach(), positive = at.detach();
  anchor.set_requires_grad();
  positive.set_requires_grad();
  const Tensor negative = from_doubles(std::vector<double>{1, 2.5}, {1, 2}, DType::f64);
  triplet(anchor, positive, negative, 1, 0).backward();
  EXPECT_EQ(positive.grad().to_vector(), (std::vector<double>{0, 0}));
  EXPECT_EQ(anchor.grad().to_vector(), (std::vector<double>{0, 1}));
}

TEST(Hinge, RefusesAMarginThatIsNotFinite) {
  const Tensor x = sines({3});
  EXPECT_NO_THROW(hinge(x, x, 0.5));
  for (double margin : {static_cast<double>(NAN), static_cast<double>(INFINITY)})
    EXPECT_THROW(hinge(x, x, margin), Error);
}

TEST_F(Labelled, TheMeanOverNoLabelIsNanAndMovesNothing) {
  const Tensor ignored = integers({-1, -1, -1, -1}, {4});
  for (bool weighted : {false, true}) {
    for (double smoothing : {0.0, 0.1}) {
      Tensor logits = sines({4, 3});
      logits.set_requires_grad();
      CrossEntropyOptions options{.ignore_index = -1, .label_smoothing = smoothing};
      if (weighted) options.weight = weight;
      const Tensor loss = cross_entropy(logits, ignored, options);
      EXPECT_TRUE(std::isnan(loss.item()));
      loss.backward();
      expect_values(logits.grad(), std::vector<double>(12, 0));
    }
  }
  Tensor logits = sines({4, 3});
  logits.set_requires_grad();
  nll(log_softmax(logits), ignored, {.ignore_index = -1}).backward();
  expect_values(logits.grad(), std::vector<double>(12, 0));
}

// Shifting all logits of a row changes neither the loss nor its gradient.
TEST(CrossEntropy, InF32ToleratesLogitsFarFromZero) {
  const std::vector<std::int64_t> labels{0, 2, 1};
  for (double shift : {0.0, -1000.0, 1e4, 65536.0}) {
    std::vector<double> values(15), exact(15);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 11) * 0.5 + shift;
    for (std::size_t r = 0; r < 3; ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < 5; ++c) sum += std::exp(values[r * 5 + c] - shift);
      for (std::size_t c = 0; c < 5; ++c) {
        const double hot = static_cast<std::int64_t>(c) == labels[r] ? 1 : 0;
        exact[r * 5 + c] = (std::exp(values[r * 5 + c] - shift) / sum - hot) / 3;
      }
    }
    Tensor logits = from_doubles(values, {3, 5}, DType::f32);
    logits.set_requires_grad();
    cross_entropy(logits, integers(labels, {3})).backward();
    const auto got = logits.grad().to_vector();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], exact[i], 1e-7) << shift;
  }
}

TEST(BceWithLogits, OfCertainLogitsKeepsItsDigits) {
  for (DType dtype : {DType::f32, DType::f64}) {
    for (double x : {8.0, 12.0, 16.0, 20.0, 40.0}) {
      const double want = std::log1p(std::exp(-x)), allowed = want * (dtype == DType::f32 ? 1e-6 : 1e-14);
      const Tensor yes = from_doubles(std::vector<double>{x}, {1}, dtype);
      const Tensor one = from_doubles(std::vector<double>{1}, {1}, dtype);
      EXPECT_NEAR(bce_with_logits(yes, one).item(), want, allowed) << x;
      EXPECT_NEAR(bce_with_logits(neg(yes), zeros({1}, dtype)).item(), want, allowed) << -x;
      EXPECT_NEAR(bce_with_logits(neg(yes), one).item(), x + want, x * 1e-6) << -x;
    }
  }
}

}  // namespace
}  // namespace starling::testing
