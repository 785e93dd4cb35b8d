#include <filesystem>
#include <nlohmann/json.hpp>

#include "optim/optim_testing.h"
#include "starling/data/formats/safetensors.h"

namespace starling::testing {
namespace {

using optim::Lbfgs;
using optim::LbfgsOptions;

data::SafetensorsFile golden() {
  const auto path = std::filesystem::path(STARLING_GOLDEN_FOLDER) / "optim" / "lbfgs.safetensors";
  return data::SafetensorsFile::open(path).value();
}

std::vector<double> row(const Tensor& matrix, std::int64_t i) {
  const auto all = matrix.to_vector();
  const auto n = matrix.size(1);
  return {all.begin() + i * n, all.begin() + (i + 1) * n};
}

// Iterates and numbers of evaluations after every step().
void expect_iterates(const std::string& name, const std::vector<Tensor>& weights, Lbfgs& lbfgs, double tolerance) {
  const data::SafetensorsFile file = golden();
  const Tensor want = file.tensor("lbfgs/" + name);
  const auto evaluations = nlohmann::json::parse(file.metadata().at("lbfgs/" + name));
  for (std::int64_t call = 0; call < want.size(0); ++call) {
    lbfgs.step();
    std::vector<double> got;
    for (const auto& w : weights) {
      for (double x : w.to_vector()) got.push_back(x);
    }
    ASSERT_LE(relative_difference(got, row(want, call)), tolerance) << name << " after call " << call + 1;
    ASSERT_EQ(lbfgs.evaluations(), evaluations[static_cast<std::size_t>(call)].get<std::int64_t>());
  }
}

Tensor rosenbrock(const Tensor& w) {
  const Tensor x = narrow(w, 0, 0, 1), y = narrow(w, 0, 1, 1);
  return sum(100 * square(y - square(x)) + square(1 - x));
}

TEST(Lbfgs, MakesTheIteratesOfPyTorchOnRosenbrocksFunction) {
  for (const bool compiled : {false, true}) {
    Tensor w = parameter("w", {-1.5, 2.0}, {2});
    Lbfgs lbfgs({w}, [&] { return rosenbrock(w); }, {.iterations = 4, .history = 5, .compiled = compiled});
    expect_iterates("rosenbrock", {w}, lbfgs, 1e-8);
    for (int i = 0; i < 8; ++i) lbfgs.step();
    EXPECT_LE(relative_difference(w.to_vector(), {1, 1}), 1e-4) << "the minimum is at (1, 1)";
  }
}

TEST(Lbfgs, TakesPlainStepsWithoutALineSearch) {
  Tensor w = parameter("w", {-1.5, 2.0}, {2});
  Lbfgs lbfgs({w}, [&] { return rosenbrock(w); },
              {.lr = 0.05, .iterations = 4, .history = 3, .line_search = LbfgsOptions::LineSearch::none});
  expect_iterates("rosenbrock_plain", {w}, lbfgs, 1e-8);
}

struct Mlp {
  Tensor x, y, first, bias, second;

  Mlp() {
    const data::SafetensorsFile file = golden();
    x = file.tensor("mlp/x");
    y = file.tensor("mlp/y");
    first = parameter("first", file.tensor("mlp/first").to_vector(), {8, 3});
    bias = parameter("bias", file.tensor("mlp/bias").to_vector(), {8});
    second = parameter("second", file.tensor("mlp/second").to_vector(), {2, 8});
  }
  std::vector<Tensor> weights() const { return {first, bias, second}; }
  Tensor loss() const {
    const Tensor hidden = tanh(matmul(x, first, {.trans_b = true}) + bias);
    return mean(square(matmul(hidden, second, {.trans_b = true}) - y));
  }
};

TEST(Lbfgs, MakesTheIteratesOfPyTorchOnASmallNet) {
  Mlp net;
  Lbfgs lbfgs(net.weights(), [&] { return net.loss(); }, {.iterations = 5, .history = 4});
  expect_iterates("mlp", net.weights(), lbfgs, 1e-7);
}

TEST(Lbfgs, GoesOnToTheSameBitsFromItsState) {
  Mlp whole, broken;
  const LbfgsOptions options{.iterations = 3, .history = 3};
  Lbfgs undisturbed(
      whole.weights(), [&] { return whole.loss(); }, options);
  auto before = std::make_unique<Lbfgs>(
      broken.weights(), [&] { return broken.loss(); }, options);
  for (int i = 0; i < 3; ++i) {
    undisturbed.step();
    before->step();
  }
  Lbfgs after(
      broken.weights(), [&] { return broken.loss(); }, options);
  const auto from = before->state(), to = after.state();
  for (std::size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(from[i].first, to[i].first);
    copy_into(to[i].second, from[i].second);
  }
  before.reset();
  for (int i = 0; i < 3; ++i) {
    undisturbed.step();
    after.step();
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(whole.weights()[i].to_vector(), broken.weights()[i].to_vector());
}

TEST(Lbfgs, StopsAtAMinimum) {
  Tensor w = parameter("w", {1, 1}, {2});
  Lbfgs lbfgs({w}, [&] { return rosenbrock(w); });
  lbfgs.step();
  EXPECT_EQ(lbfgs.evaluations(), 1);
  EXPECT_EQ(w.to_vector(), (std::vector<double>{1, 1}));
}

TEST(Lbfgs, RefusesParametersThatAreNone) {
  EXPECT_THROW(Lbfgs({zeros({2})}, [] { return zeros({}); }), Error);
  EXPECT_THROW(Lbfgs({}, [] { return zeros({}); }), Error);
}

}  // namespace
}  // namespace starling::testing
