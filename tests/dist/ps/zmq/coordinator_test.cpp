#include "starling/dist/ps/coordinator.h"

#include <gtest/gtest.h>

#include "dist/ps/ps_testing.h"
#include "starling/dist/ps/vectors.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/slice.h"
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

struct Trained {
  std::vector<double> weights;
  double loss = 0, requests = 0, bytes = 0;
  int evaluations = 0;
};

// A worker evaluates two portions of the loss; the coordinator sees numbers only.
Trained train(std::int64_t n, int iterations, const CoordinatorOptions& options) {
  const std::vector<ServedTensor> net{{.name = "x", .type = {DType::f64, {n}}}};
  const ServerThreads servers("inproc", net, 3);
  const auto worker = servers.client(0), coordinator = servers.client(-1);
  put_all(*worker, {zeros({n}, DType::f64)});
  const double before = counter(coordinator->counters(), "requests"),
               bytes = counter(coordinator->counters(), "bytes_out");
  ProcedureCoordinator procedure(
      *coordinator,
      [&] {
        coordinator->zero(V::kGradient);
        const Tensor x = pull_all(*worker)[0];
        double loss = 0;
        for (int portion = 0; portion < 2; ++portion) {
          const Tensor gradient = zeros({n}, DType::f64);
          const std::int64_t half = n / 2, begin = portion * half;
          loss += valley(x.data<double>() + begin, gradient.data<double>() + begin, half);
          worker->wait(worker->push_portion(V::kGradient, portion, 0, gradient));
        }
        return loss;
      },
      options);
  for (int i = 0; i < iterations; ++i) procedure.iterate();
  const Tensor x = pull_all(*worker)[0];
  const auto counters = coordinator->counters();
  return {x.to_vector(), procedure.loss(), counter(counters, "requests") - before,
          counter(counters, "bytes_out") - bytes + counter(counters, "bytes_in"), procedure.evaluations()};
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
    const Trained ours = train(n, iterations, {});
    for (std::int64_t i = 0; i < n; ++i)
      ASSERT_NEAR(ours.weights[static_cast<std::size_t>(i)], x.data<double>()[i], 1e-7) << "iteration " << iterations;
  }
}

TEST(PsCoordinator, EndsInTheValleyByEitherProcedure) {
  for (const auto procedure : {CoordinatorOptions::Procedure::lbfgs, CoordinatorOptions::Procedure::cg}) {
    const Trained trained = train(40, 60, {.procedure = procedure});
    EXPECT_LT(trained.loss, 1e-6);
    for (const double x : trained.weights) EXPECT_NEAR(x, 1, 1e-2);
  }
}

TEST(PsCoordinator, SendsTheSameWhateverTheSizeOfTheModel) {
  for (const std::int64_t n : {40, 4000}) {
    const Trained trained = train(n, 1, {});
    EXPECT_EQ(trained.bytes, 0);  // headers alone
    // To each of three servers: the first gradient, the direction, the search, and four for each point on its line.
    EXPECT_EQ(trained.requests, 3 * (1 + 4 + 4 + 4 * (trained.evaluations - 1))) << n;
  }
}

}  // namespace
}  // namespace starling::dist::ps
