#include "starling/dist/ps/coordinator.h"

#include <gtest/gtest.h>

#include "dist/ps/procedure_testing.h"
#include "starling/dist/ps/vectors.h"
#include "starling/ops/api/activation.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/slice.h"
#include "starling/ops/api/unary.h"
#include "starling/optim/lbfgs.h"

namespace starling::dist::ps {
namespace {

using V = CoordinatorVectors;

std::vector<ServedTensor> doubles(std::int64_t n) {
  return {{.name = "a", .type = {DType::f64, {n}}}, {.name = "b", .type = {DType::f64, {n / 2}}}};
}

Tensor ramp(std::int64_t n, double from) {
  Tensor made = empty({n}, DType::f64);
  for (std::int64_t i = 0; i < n; ++i) made.data<double>()[i] = from + static_cast<double>(i % 7);
  return made;
}

TEST(PsVectors, AreAddedScaledAndMultipliedOnServers) {
  const auto net = doubles(30);
  const ServerThreads servers("inproc", net, 3);
  const auto client = servers.client(0);
  put_all(*client, {ramp(30, 1), ramp(15, 2)});
  client->copy(1, 0);
  client->scale(1, 0.5);
  client->axpy(1, 2, 0);  // 2.5 · weights
  double squares = 0, sum = 0;
  for (const auto& w : {ramp(30, 1), ramp(15, 2)}) {
    for (std::int64_t i = 0; i < w.numel(); ++i) {
      squares += w.data<double>()[i] * w.data<double>()[i];
      sum += w.data<double>()[i];
    }
  }
  EXPECT_NEAR(client->dot(0, 1), 2.5 * squares, 1e-9);
  EXPECT_NEAR(client->sum_abs(1), 2.5 * sum, 1e-9);
  client->zero(1);
  EXPECT_EQ(client->dot(1, 1), 0);
  EXPECT_THROW(client->zero(kMostVectors), Error);
}

TEST(PsVectors, CountEachPortionOnce) {
  const auto net = doubles(30);
  const ServerThreads servers("ipc", net, 2, {.clock = {.workers = 2}});
  const auto a = servers.client(0), b = servers.client(1);
  put_all(*a, {ramp(30, 1), ramp(15, 2)});
  const Tensor one = ramp(30, 1);
  const auto add = [&](Client& who, std::int64_t portion) { who.wait(who.push_portion(1, portion, 0, one)); };
  add(*a, 0);
  add(*b, 0);  // a slow worker's portion, computed twice
  add(*b, 1);
  a->copy(2, 1);
  a->axpy(2, -2, 0);  // the first tensor is two times its weights
  a->zero(3);
  EXPECT_NEAR(
      a->dot(1, 1) - 4 *
                         [&] {
                           double squares = 0;
                           for (int i = 0; i < 30; ++i) squares += one.data<double>()[i] * one.data<double>()[i];
                           return squares;
                         }(),
      0, 1e-9);
  const double twice = a->dot(1, 1);
  add(*a, 1);
  EXPECT_EQ(a->dot(1, 1), twice);
  a->zero(1);  // a new round: portions count again
  add(*a, 1);
  EXPECT_NEAR(a->dot(1, 1), twice / 4, 1e-9);
  EXPECT_EQ(counter(a->server_counters(), "repeated_portions"), 4);  // two, of two keys each
}

// Rosenbrock's valley in pairs of elements, shifted: not a quadratic, and no two coordinates alike.
double valley(const double* x, double* g, std::int64_t n) {
  double loss = 0;
  for (std::int64_t i = 0; i + 1 < n; i += 2) {
    const double u = 1 - x[i], v = x[i + 1] - x[i] * x[i], c = 1 + static_cast<double>(i % 5);
    loss += u * u + c * v * v;
    g[i] = -2 * u - 4 * c * v * x[i];
    g[i + 1] = 2 * c * v;
  }
  return loss;
}

// Each portion is the valley of one half of the elements.
Procedure train(std::int64_t n, int iterations, const CoordinatorOptions& options, bool pulls = false) {
  const auto half = [n](int portion, const double* x, double* g) {
    const std::int64_t begin = portion * n / 2;
    return valley(x + begin, g + begin, n / 2);
  };
  return run_procedure(std::vector<double>(static_cast<std::size_t>(n), 0), iterations, options, half, pulls);
}

TEST(PsCoordinator, MakesTheIteratesOfSerialLbfgs) {
  const std::int64_t n = 40;
  Tensor x = zeros({n}, DType::f64);
  x.set_name("x").set_requires_grad();
  std::vector<double> c;
  for (std::int64_t i = 0; i < n / 2; ++i) c.push_back(1 + static_cast<double>((2 * i) % (n / 2) % 5));
  // The same valley by ops.
  const auto loss = [&] {
    const Tensor pairs = reshape(x, {n / 2, 2});
    const Tensor even = narrow(pairs, 1, 0, 1), odd = narrow(pairs, 1, 1, 1);
    const Tensor u = sub(1.0, even), v = sub(odd, mul(even, even));
    return add(sum(mul(u, u)), sum(mul(mul(v, v), from_doubles(c, {n / 2, 1}, DType::f64))));
  };
  optim::Lbfgs serial({x}, loss, {.iterations = 1, .evaluations = 26});
  for (int iterations = 1; iterations <= 6; ++iterations) {
    serial.step();
    const Procedure ours = train(n, iterations, {});
    for (std::int64_t i = 0; i < n; ++i)
      ASSERT_NEAR(ours.weights[static_cast<std::size_t>(i)], x.data<double>()[i], 1e-7) << "iteration " << iterations;
  }
}

// A network of two layers, its rows in two portions; its weights in one vector.
class SmallNet {
 public:
  static constexpr std::int64_t kIn = 5, kHidden = 6, kWeights = kIn * kHidden + kHidden, kRows = 30;
  SmallNet() {
    rows_ = empty({kRows, kIn}, DType::f64);
    for (std::int64_t i = 0; i < rows_.numel(); ++i)
      rows_.data<double>()[i] = static_cast<double>((i * 37 + 11) % 23) / 11 - 1;
  }
  static std::vector<double> first() {
    std::vector<double> made;
    for (int i = 0; i < kWeights; ++i) made.push_back(static_cast<double>((i * 53 + 7) % 19) / 19 - 0.5);
    return made;
  }
  Tensor loss(const Tensor& x, std::int64_t begin, std::int64_t rows) const {
    const Tensor in = narrow(rows_, 0, begin, rows);
    const Tensor one = reshape(narrow(x, 0, 0, kIn * kHidden), {kIn, kHidden});
    const Tensor two = reshape(narrow(x, 0, kIn * kHidden, kHidden), {kHidden, 1});
    const Tensor error =
        sub(matmul(tanh(matmul(in, one)), two), sin(mul(sum(in, {.axes = {1}, .keepdim = true}), 2.0)));
    return mul(sum(mul(error, error)), 1.0 / kRows);
  }
  double portion(int number, const double* at, double* g) const {
    Tensor x = from_doubles({at, at + kWeights}, {kWeights}, DType::f64);
    x.set_requires_grad();
    const Tensor made = loss(x, number * kRows / 2, kRows / 2);
    made.backward();
    for (int i = 0; i < kWeights; ++i) g[i] += x.grad().data<double>()[i];
    return made.item();
  }

 private:
  Tensor rows_;
};

TEST(PsCoordinator, MakesTheIteratesOfSerialLbfgsOnANetwork) {
  const SmallNet net;
  Tensor x = from_doubles(SmallNet::first(), {SmallNet::kWeights}, DType::f64);
  x.set_name("x").set_requires_grad();
  optim::Lbfgs serial({x}, [&] { return net.loss(x, 0, SmallNet::kRows); }, {.iterations = 1, .evaluations = 26});
  const auto portion = [&](int number, const double* at, double* g) { return net.portion(number, at, g); };
  for (int iterations = 1; iterations <= 12; ++iterations) {
    serial.step();
    if (iterations % 4 != 0) continue;
    const Procedure ours = run_procedure(SmallNet::first(), iterations, {}, portion);
    for (std::int64_t i = 0; i < SmallNet::kWeights; ++i)
      ASSERT_NEAR(ours.weights[static_cast<std::size_t>(i)], x.data<double>()[i], 1e-8) << "iteration " << iterations;
  }
  const Procedure shorter = run_procedure(SmallNet::first(), 12, {.history = 1}, portion);
  EXPECT_GT(std::abs(shorter.weights[0] - x.data<double>()[0]), 1e-6) << "control: another history ends elsewhere";
}

// A loss that is bent downwards near 0: along a step there the gradient shrinks.
TEST(PsCoordinator, KeepsNoPairAlongWhichTheGradientDoesNotGrow) {
  const auto well = [](int portion, const double* x, double* g) {
    double loss = 0;
    for (int i = portion * 2; i < portion * 2 + 2; ++i) {
      const double t = x[i] * x[i];
      loss += t * t / 4 - t / 2;
      g[i] += x[i] * t - x[i];
    }
    return loss;
  };
  const std::vector<double> first{0.01, -0.02, 0.015, 0.01};
  const CoordinatorOptions short_searches{.lr = 0.5, .evaluations = 1};
  const Procedure one = run_procedure(first, 1, short_searches, well);
  double curvature = 0;
  std::vector<double> before(4, 0), after(4, 0);
  for (int portion = 0; portion < 2; ++portion) {
    well(portion, first.data(), before.data());
    well(portion, one.weights.data(), after.data());
  }
  for (std::size_t i = 0; i < 4; ++i) curvature += (one.weights[i] - first[i]) * (after[i] - before[i]);
  ASSERT_LT(curvature, 0) << "what the test is about";
  EXPECT_EQ(run_procedure(first, 2, short_searches, well).pairs_refused, 1);
  const Procedure all = run_procedure(first, 60, short_searches, well);
  for (const double x : all.weights) EXPECT_NEAR(std::abs(x), 1, 1e-4) << "its minima are at -1 and 1";
  EXPECT_EQ(run_procedure(first, 8, {}, well).pairs_refused, 0) << "control: whole searches end where it has grown";
}

TEST(PsCoordinator, EndsInTheValleyByEitherProcedure) {
  for (const auto procedure : {CoordinatorOptions::Procedure::lbfgs, CoordinatorOptions::Procedure::cg}) {
    const Procedure trained = train(40, 60, {.procedure = procedure});
    EXPECT_LT(trained.loss, 1e-6);
    for (const double x : trained.weights) EXPECT_NEAR(x, 1, 1e-2);
  }
}

TEST(PsCoordinator, SendsTheSameWhateverTheSizeOfTheModel) {
  for (const std::int64_t n : {40, 4000}) {
    const Procedure trained = train(n, 1, {});
    EXPECT_EQ(trained.bytes, 0);  // headers alone
    // To each of three servers: the first gradient, the direction, the search, and four for each point on its line.
    EXPECT_EQ(trained.requests, 3 * (1 + 4 + 4 + 4 * (trained.evaluations - 1))) << n;
    const Procedure pulling = train(n, 1, {}, true);
    EXPECT_EQ(pulling.bytes, static_cast<double>(8 * n * pulling.evaluations)) << "control: it reads the weights";
  }
}

}  // namespace
}  // namespace starling::dist::ps
