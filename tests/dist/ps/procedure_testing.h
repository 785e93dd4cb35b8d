#pragma once

#include <functional>
#include <vector>

#include "dist/ps/ps_testing.h"
#include "starling/dist/ps/coordinator.h"

namespace starling::dist::ps {

// Loss of a portion of the data, and its gradient, which is added to g.
using PortionLoss = std::function<double(int portion, const double* x, double* g)>;

// Result of a procedure over three servers on a loss of so many f64 weights, of two portions.
struct Procedure {
  std::vector<double> weights;
  double loss = 0, requests = 0, bytes = 0;
  int evaluations = 0, pairs_refused = 0;
  bool moved = true;
};

// One worker evaluates; the coordinator sees numbers only. pulls: control, a coordinator that reads the weights.
inline Procedure run_procedure(const std::vector<double>& first, int iterations, const CoordinatorOptions& options,
                               const PortionLoss& portion_loss, bool pulls = false) {
  using V = CoordinatorVectors;
  const auto n = static_cast<std::int64_t>(first.size());
  const std::vector<ServedTensor> net{{.name = "x", .type = {DType::f64, {n}}}};
  const ServerThreads servers("inproc", net, 3);
  const auto worker = servers.client(0), coordinator = servers.client(-1);
  put_all(*worker, {from_doubles(first, {n}, DType::f64)});
  const auto bytes = [&] {
    return counter(coordinator->counters(), "bytes_out") + counter(coordinator->counters(), "bytes_in");
  };
  const double before = counter(coordinator->counters(), "requests"), bytes_before = bytes();
  ProcedureCoordinator procedure(
      *coordinator,
      [&] {
        coordinator->zero(V::kGradient);
        if (pulls) pull_all(*coordinator);
        const Tensor x = pull_all(*worker)[0];
        double loss = 0;
        for (int portion = 0; portion < 2; ++portion) {
          const Tensor gradient = zeros({n}, DType::f64);
          loss += portion_loss(portion, x.data<double>(), gradient.data<double>());
          worker->wait(worker->push_portion(V::kGradient, portion, 0, gradient));
        }
        return loss;
      },
      options);
  Procedure made;
  for (int i = 0; i < iterations && made.moved; ++i) made.moved = procedure.iterate();
  made.weights = pull_all(*worker)[0].to_vector();
  made.loss = procedure.loss();
  made.requests = counter(coordinator->counters(), "requests") - before;
  made.bytes = bytes() - bytes_before;
  made.evaluations = procedure.evaluations();
  made.pairs_refused = procedure.pairs_refused();
  return made;
}

}  // namespace starling::dist::ps
