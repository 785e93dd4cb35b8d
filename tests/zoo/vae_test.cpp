// The evidence lower bound of the variational autoencoder.
#include <gtest/gtest.h>

#include <cmath>

#include "starling/starling.h"

namespace starling {
namespace {

struct SmallVae {
  zoo::Vae net;
  Tensor x;
  explicit SmallVae(const zoo::VaeOptions& options)
      : net(make(options)), x(uniform({5, options.inputs}, {.dtype = DType::f64})) {}
  static zoo::Vae make(const zoo::VaeOptions& options) {
    manual_seed(5);
    zoo::Vae net(options);
    net.to(DType::f64);
    return net;
  }
};

// -log p(x | z) + beta · KL for given codes, in plain loops.
double negative_bound(const std::vector<double>& x, const std::vector<double>& logits, const std::vector<double>& mean,
                      const std::vector<double>& log_variance, double beta, double samples) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double p = 1 / (1 + std::exp(-logits[i]));
    sum -= x[i] * std::log(p) + (1 - x[i]) * std::log(1 - p);
  }
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double variance = std::exp(log_variance[i]);
    sum += beta * 0.5 * (mean[i] * mean[i] + variance - 1 - std::log(variance));
  }
  return sum / samples;
}

void expect_bound(double beta) {
  SmallVae vae({.inputs = 12, .hidden = 7, .code = 3, .beta = beta});
  manual_seed(9);
  const double loss = vae.net.own_loss({&vae.x, 1}).loss.item();
  const auto code = vae.net.encode(vae.x);
  manual_seed(9);  // the first numbers that the loss drew
  const Tensor noise = normal(code.mean.shape(), {.dtype = DType::f64});
  const Tensor logits = vae.net.decode(code.mean + exp(code.log_variance * 0.5) * noise);
  EXPECT_NEAR(loss,
              negative_bound(vae.x.to_vector(), logits.to_vector(), code.mean.to_vector(),
                             code.log_variance.to_vector(), beta, 5),
              1e-9);
}

TEST(Vae, LossIsTheNegativeEvidenceLowerBound) { expect_bound(1); }
TEST(Vae, BetaWeighsTheDivergence) { expect_bound(4); }

// The bound lies below the likelihood, here estimated by sampling from the prior.
TEST(Vae, TheBoundLiesBelowTheLogLikelihood) {
  SmallVae vae({.inputs = 6, .hidden = 5, .code = 2});
  const NoGrad no_grad;
  const Tensor one = narrow(vae.x, 0, 0, 1);
  const std::int64_t draws = 20'000;
  const Tensor many = broadcast_to(one, {draws, 6});
  const double bound = -vae.net.own_loss({&many, 1}).loss.item();
  const Tensor logits = vae.net.decode(normal({draws, 2}, {.dtype = DType::f64}));
  const Tensor log_p = neg(sum(bce_with_logits(logits, many, {}, {.reduction = Reduction::none}), {.axes = {1}}));
  const double log_likelihood = logsumexp(log_p).item() - std::log(static_cast<double>(draws));
  EXPECT_LT(bound, log_likelihood);
  EXPECT_GT(bound, log_likelihood - 3);
}

TEST(Vae, SamplesAndReconstructionsAreProbabilities) {
  SmallVae vae({.inputs = 12, .hidden = 7, .code = 3});
  for (const Tensor& made : {vae.net.sample(4), vae.net(vae.x)}) {
    EXPECT_EQ(made.size(1), 12);
    for (const double value : made.to_vector()) EXPECT_TRUE(value > 0 && value < 1) << value;
  }
}

}  // namespace
}  // namespace starling
