// Restricted Boltzmann machines against oracles in plain loops: updates, energies, exact likelihoods.
#include <gtest/gtest.h>

#include <cmath>

#include "starling/starling.h"

namespace starling {
namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix matrix_of(const Tensor& tensor) {
  const auto flat = tensor.to_vector();
  const auto columns = static_cast<std::size_t>(tensor.size(1));
  Matrix rows;
  for (std::size_t i = 0; i < flat.size(); i += columns)
    rows.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(i),
                      flat.begin() + static_cast<std::ptrdiff_t>(i + columns));
  return rows;
}

double sigma(double x) { return 1 / (1 + std::exp(-x)); }

// Parameters of a machine in double precision, and the quantities derived from them.
struct Oracle {
  Matrix w;
  std::vector<double> b, a;

  explicit Oracle(const zoo::Rbm& rbm) {
    const auto named = rbm.parameters();
    w = matrix_of(named[0]);
    b = named[1].to_vector();
    a = named[2].to_vector();
  }
  double drive(const std::vector<double>& v, std::size_t j) const {
    double sum = b[j];
    for (std::size_t i = 0; i < v.size(); ++i) sum += w[j][i] * v[i];
    return sum;
  }
  // Adds one sample's d/dW, d/db, d/da of -log p by contrastive divergence, data minus chain negated.
  void add_gradient(const std::vector<double>& v, double sign, Matrix& dw, std::vector<double>& db,
                    std::vector<double>& da) const {
    for (std::size_t j = 0; j < b.size(); ++j) {
      const double p = sigma(drive(v, j));
      for (std::size_t i = 0; i < a.size(); ++i) dw[j][i] += sign * p * v[i];
      db[j] += sign * p;
    }
    for (std::size_t i = 0; i < a.size(); ++i) da[i] += sign * v[i];
  }
  double free_energy(const std::vector<double>& v) const {
    double f = 0;
    for (std::size_t i = 0; i < a.size(); ++i) f -= a[i] * v[i];
    for (std::size_t j = 0; j < b.size(); ++j) f -= std::log1p(std::exp(drive(v, j)));
    return f;
  }
  // log Σ exp(-F) over all states of the visible units.
  double log_partition() const {
    double sum = 0;
    for (std::uint64_t state = 0; state < (std::uint64_t{1} << a.size()); ++state) {
      std::vector<double> v(a.size());
      for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>((state >> i) & 1);
      sum += std::exp(-free_energy(v));
    }
    return std::log(sum);
  }
  double log_likelihood(const Matrix& data) const {
    double sum = 0;
    for (const auto& v : data) sum -= free_energy(v);
    return sum / static_cast<double>(data.size()) - log_partition();
  }
};

zoo::Rbm make(const zoo::RbmOptions& options) {
  manual_seed(3);
  zoo::Rbm rbm(options);
  for (const auto& parameter : rbm.parameters()) {
    const NoGrad no_grad;
    copy_into(parameter, normal(parameter.shape(), {.stddev = 0.5}));
  }
  rbm.to(DType::f64);
  return rbm;
}

void expect_close(const Tensor& got, const std::vector<double>& expected) {
  const auto values = got.to_vector();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-10) << i;
}

void expect_update_of_contrastive_divergence(const zoo::RbmOptions& options) {
  zoo::Rbm rbm = make(options);
  const std::int64_t n = 6;
  const Tensor v = bernoulli({n, options.inputs}, 0.4, DType::f64);
  manual_seed(11);
  const Tensor chain = rbm.gibbs(v, options.k);
  manual_seed(11);
  rbm.own_loss({&v, 1}).loss.backward();

  const Oracle oracle(rbm);
  Matrix dw(oracle.b.size(), std::vector<double>(oracle.a.size()));
  std::vector<double> db(oracle.b.size()), da(oracle.a.size());
  for (const auto& sample : matrix_of(v)) oracle.add_gradient(sample, -1.0 / n, dw, db, da);
  for (const auto& sample : matrix_of(chain)) oracle.add_gradient(sample, 1.0 / n, dw, db, da);
  std::vector<double> flat;
  for (const auto& row : dw) flat.insert(flat.end(), row.begin(), row.end());
  const auto parameters = rbm.parameters();
  expect_close(parameters[0].grad(), flat);
  expect_close(parameters[1].grad(), db);
  expect_close(parameters[2].grad(), da);
}

TEST(Rbm, TheUpdateIsContrastiveDivergenceWithOneStep) {
  expect_update_of_contrastive_divergence({.inputs = 7, .hidden = 5});
}
TEST(Rbm, TheUpdateIsContrastiveDivergenceWithThreeSteps) {
  expect_update_of_contrastive_divergence({.inputs = 7, .hidden = 5, .k = 3});
}
TEST(Rbm, TheUpdateIsContrastiveDivergenceForGaussianUnits) {
  expect_update_of_contrastive_divergence({.inputs = 7, .hidden = 5, .visible = zoo::VisibleUnits::gaussian});
}

TEST(Rbm, FreeEnergyIsTheOracles) {
  const zoo::Rbm rbm = make({.inputs = 6, .hidden = 4});
  const Tensor v = bernoulli({5, 6}, 0.5, DType::f64);
  const Oracle oracle(rbm);
  std::vector<double> expected;
  for (const auto& sample : matrix_of(v)) expected.push_back(oracle.free_energy(sample));
  expect_close(rbm.free_energy(v), expected);
}

TEST(Rbm, AChainOfGibbsStepsReachesTheModelsDistribution) {
  const zoo::Rbm rbm = make({.inputs = 3, .hidden = 4});
  const std::int64_t n = 40'000;
  const auto states = matrix_of(rbm.gibbs(bernoulli({n, 3}, 0.5, DType::f64), 30));
  std::vector<double> share(8);
  for (const auto& v : states) {
    ASSERT_TRUE(v[0] == 0 || v[0] == 1);
    share[static_cast<std::size_t>(v[0] + 2 * v[1] + 4 * v[2])] += 1.0 / static_cast<double>(n);
  }
  const Oracle oracle(rbm);
  const double log_z = oracle.log_partition();
  for (std::size_t state = 0; state < share.size(); ++state) {
    const std::vector<double> v{static_cast<double>(state & 1), static_cast<double>(state >> 1 & 1),
                                static_cast<double>(state >> 2)};
    const double p = std::exp(-oracle.free_energy(v) - log_z);
    EXPECT_NEAR(share[state], p, 5 * std::sqrt(p * (1 - p) / static_cast<double>(n)) + 1e-4) << state;
  }
}

TEST(Rbm, TheExactLikelihoodOfTheDataRises) {
  manual_seed(1);
  zoo::Rbm rbm({.inputs = 8, .hidden = 6});
  // Two patterns and their mixtures with a little noise.
  const Tensor half = bernoulli({128, 1}, 0.5);
  const Tensor pattern = concat({broadcast_to(half, {128, 4}), broadcast_to(1.0 - half, {128, 4})}, 1);
  const Tensor data = abs(pattern - bernoulli({128, 8}, 0.05));
  const Matrix rows = matrix_of(data);
  optim::Sgd optimizer(rbm.parameters(), {.lr = 0.1, .momentum = 0.5});
  auto step = compile([&](const Tensor& v) {
    const Tensor loss = rbm.own_loss({&v, 1}).loss;
    loss.backward();
    optimizer.step();
    return loss;
  });
  const double before = Oracle(rbm).log_likelihood(rows);
  EXPECT_NEAR(before, -8 * std::log(2), 0.05);  // untrained: uniform
  for (int i = 0; i < 600; ++i) step(data);
  EXPECT_GT(Oracle(rbm).log_likelihood(rows), before + 1.5);
}

}  // namespace
}  // namespace starling
