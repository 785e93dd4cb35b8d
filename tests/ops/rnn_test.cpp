#include "starling/ops/api/rnn.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "ops/op_checks.h"
#include "starling/autograd/autograd.h"
#include "starling/base/parallel.h"
#include "starling/kernels/eager.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

using NetworkFn = RnnResult (*)(const Tensor&, std::span<const RnnWeights>, const RnnOptions&);

struct Network {
  const char* name;
  NetworkFn run;
  std::int64_t gates;
};

void PrintTo(const Network& network, std::ostream* out) { *out << network.name; }

class Recurrent : public ::testing::TestWithParam<Network> {
 protected:
  static constexpr std::int64_t kSteps = 5, kBatch = 3, kIn = 4, kHidden = 3;

  // Small numbers, no two tensors alike.
  Tensor draw(const Shape& shape, DType dtype = DType::f64) {
    return testing::draw({{{.shape = shape, .low = -0.6, .high = 0.6}}, op::NoAttrs{}}, dtype, ++seed_).in[0];
  }
  RnnWeights weights(std::int64_t in, std::int64_t hidden = kHidden, DType dtype = DType::f64) {
    const std::int64_t rows = GetParam().gates * hidden;
    return {draw({rows, in}, dtype), draw({rows, hidden}, dtype), draw({rows}, dtype), draw({rows}, dtype)};
  }
  RnnResult run(const Tensor& x, const std::vector<RnnWeights>& w, const RnnOptions& options = {}) {
    return GetParam().run(x, w, options);
  }
  unsigned seed_ = 0;
};

Tensor steps_of(const Tensor& x, std::int64_t begin, std::int64_t end) {
  return slice(x, {.axis = 0, .begin = begin, .end = end});
}
Tensor row_of(const Tensor& x, std::int64_t row) { return slice(x, {.axis = 1, .begin = row, .end = row + 1}); }
Tensor lengths_of(std::vector<std::int64_t> lengths) {
  return from_host<std::int64_t>(lengths, {static_cast<std::int64_t>(lengths.size())});
}

TEST_P(Recurrent, LayersInTwoPartsGoOnFromTheStatesOfTheFirst) {
  const Tensor x = draw({kSteps, kBatch, kIn});
  const std::vector<RnnWeights> w{weights(kIn), weights(kHidden)};
  const RnnResult whole = run(x, w), first = run(steps_of(x, 0, 2), w);
  const RnnResult second = run(steps_of(x, 2, kSteps), w, {.h0 = first.h, .c0 = first.c});
  EXPECT_LT(difference(second.y, steps_of(whole.y, 2, kSteps)), 1e-12);
  EXPECT_LT(difference(second.h, whole.h), 1e-12);
}

TEST_P(Recurrent, BackwardDirectionsAreForwardOnesOfTheFlippedSequence) {
  const Tensor x = draw({kSteps, kBatch, kIn});
  const std::vector<RnnWeights> w{weights(kIn), weights(kIn)};
  const RnnResult both = run(x, w, {.bidirectional = true});
  ASSERT_EQ(both.y.shape(), (Shape{kSteps, kBatch, 2 * kHidden}));
  std::vector<Tensor> flipped;
  for (std::int64_t t = kSteps - 1; t >= 0; --t) flipped.push_back(steps_of(x, t, t + 1));
  const RnnResult back = run(concat(flipped, 0), {w[1]}), forth = run(x, {w[0]});
  const auto half = [&](std::int64_t i) {
    return slice(both.y, {.axis = 2, .begin = i * kHidden, .end = (i + 1) * kHidden});
  };
  EXPECT_LT(difference(half(0), forth.y), 1e-12);
  for (std::int64_t t = 0; t < kSteps; ++t)
    EXPECT_LT(difference(steps_of(half(1), t, t + 1), steps_of(back.y, kSteps - 1 - t, kSteps - t)), 1e-12);
  EXPECT_LT(difference(steps_of(both.h, 1, 2), back.h), 1e-12);
}

TEST_P(Recurrent, RowsOfVariousLengthsAreWhatEachIsAlone) {
  const Tensor x = draw({kSteps, kBatch, kIn});
  const std::vector<RnnWeights> w{weights(kIn), weights(kIn), weights(2 * kHidden), weights(2 * kHidden)};
  const std::vector<std::int64_t> lengths{3, kSteps, 1};
  const RnnResult together = run(x, w, {.bidirectional = true, .lengths = lengths_of(lengths)});
  for (std::int64_t n = 0; n < kBatch; ++n) {
    const std::int64_t length = lengths[static_cast<std::size_t>(n)];
    const RnnResult alone = run(steps_of(row_of(x, n), 0, length), w, {.bidirectional = true});
    EXPECT_LT(difference(steps_of(row_of(together.y, n), 0, length), alone.y), 1e-12);
    EXPECT_LT(difference(row_of(together.h, n), alone.h), 1e-12);
    if (together.c.defined()) {
      EXPECT_LT(difference(row_of(together.c, n), alone.c), 1e-12);
    }
    for (double y : steps_of(row_of(together.y, n), length, kSteps).to_vector()) EXPECT_EQ(y, 0);
  }
}

TEST_P(Recurrent, BatchFirstOnlyExchangesTheFirstTwoDimensions) {
  const Tensor x = draw({kSteps, kBatch, kIn});
  const std::vector<RnnWeights> w{weights(kIn)};
  const RnnResult plain = run(x, w), turned = run(transpose(x, {1, 0, 2}), w, {.batch_first = true});
  EXPECT_LT(difference(transpose(turned.y, {1, 0, 2}), plain.y), 1e-12);
  EXPECT_LT(difference(turned.h, plain.h), 1e-12);
}

TEST_P(Recurrent, GradientsOfAStackAgreeWithDifferences) {
  const std::vector<RnnWeights> w{weights(kIn), weights(kIn), weights(2 * kHidden), weights(2 * kHidden)};
  RnnOptions options{.bidirectional = true, .lengths = lengths_of({3, kSteps, 1})};
  Tensor x = draw({kSteps, kBatch, kIn}).set_requires_grad();
  options.h0 = draw({4, kBatch, kHidden}).set_requires_grad();
  const auto loss = [&] {
    const RnnResult r = run(x, w, options);
    return add(sum(mul(r.y, r.y)), sum(r.h));
  };
  const Tensor y = loss();
  for (const Tensor& of : {x, options.h0}) {
    const std::vector<double> exact = gradients({&y, 1}, {&of, 1})[0].to_vector();
    for (std::int64_t i = 0; i < of.numel(); i += 3) {
      double& value = of.data<double>()[i];
      const double at = value;
      value = at + 1e-5;
      const double above = loss().to_vector()[0];
      value = at - 1e-5;
      const double below = loss().to_vector()[0];
      value = at;
      EXPECT_NEAR(exact[static_cast<std::size_t>(i)], (above - below) / 2e-5, 1e-7);
    }
  }
}

// Sizes beyond those of the sample calls: several panels, chunks of rows and threads.
TEST_P(Recurrent, LargeLayersAgreeWithTheReference) {
  for (const std::int64_t hidden : {48, 70}) {
    const Tensor x = draw({9, 37, 5}, DType::f32).set_requires_grad();
    const std::vector<RnnWeights> w{weights(5, hidden, DType::f32)};
    Tensor weight = w[0].w_hh;
    const auto values = [&] {
      const Tensor small = mul(weight.set_requires_grad(), 0.2);
      const RnnWeights scaled{w[0].w_ih, small, w[0].b_ih, w[0].b_hh};
      const RnnResult r = GetParam().run(x, {&scaled, 1}, {.lengths = lengths_of(std::vector<std::int64_t>(37, 8))});
      const Tensor total = sum(mul(r.y, r.y));
      const Tensor of[] = {x, weight};
      TensorList grads = gradients({&total, 1}, of);
      grads.push_back(r.y);
      return grads;
    };
    const TensorList want = [&] {
      const kernels::ReferenceScope reference;
      return values();
    }();
    for (int threads : {1, 3}) {
      const ThreadScope scope(threads);
      const TensorList got = values();
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LT(difference(got[i], want[i]), 2e-5) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Recurrent,
                         ::testing::Values(Network{"lstm", lstm, 4}, Network{"gru", gru, 3}, Network{"rnn", rnn, 1}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(RecurrentMisuse, LengthsBeyondTheSequenceNameRowAndLength) {
  const RnnWeights w{zeros({4, 2}), zeros({4, 1}), {}, {}};
  try {
    lstm(zeros({3, 2, 2}), {&w, 1}, {.lengths = lengths_of({1, 4})});
    FAIL() << "a length of 4 among 3 steps was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("got 4 in row 1"), std::string::npos) << error.what();
  }
}

TEST(RecurrentMisuse, WeightsOfOneDirectionAreNotEnoughForTwo) {
  const RnnWeights w{zeros({4, 2}), zeros({4, 1}), {}, {}};
  EXPECT_THROW(lstm(zeros({3, 2, 2}), {&w, 1}, {.bidirectional = true}), Error);
  EXPECT_THROW(lstm(zeros({3, 2, 2}), {}, {}), Error);
}

TEST(RecurrentMisuse, DropoutThatIsNoProbabilityIsRefused) {
  const RnnWeights w{zeros({4, 2}), zeros({4, 1}), {}, {}};
  for (double p : {-0.5, 1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(lstm(zeros({3, 2, 2}), {&w, 1}, {.dropout = p}), Error) << p;
}

TEST(RecurrentMisuse, CellsAreForTheLstmAlone) {
  const RnnWeights of_gru{zeros({3, 2}), zeros({3, 1}), {}, {}}, of_rnn{zeros({1, 2}), zeros({1, 1}), {}, {}};
  EXPECT_NO_THROW(gru(zeros({3, 2, 2}), {&of_gru, 1}, {}));
  EXPECT_THROW(gru(zeros({3, 2, 2}), {&of_gru, 1}, {.c0 = zeros({1, 2, 1})}), Error);
  EXPECT_THROW(rnn(zeros({3, 2, 2}), {&of_rnn, 1}, {.c0 = zeros({1, 2, 1})}), Error);
}

}  // namespace
}  // namespace starling::testing
