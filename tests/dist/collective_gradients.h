// Per-rank checks of the gradients of collectives against finite differences of the sum of all ranks' losses.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "dist/comm_worlds.h"
#include "starling/dist/comm/comm_scope.h"
#include "starling/ops/api/comm.h"
#include "starling/ops/api/messages.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/scopes/comm_world.h"
#include "starling/ops/def/sharding/halo.h"
#include "starling/starling.h"

namespace starling::collective_gradients {

struct Case {
  const char* name;
  std::function<Tensor(const Tensor&)> collective;
  std::function<std::int64_t(int rank, int ranks)> rows = [](int, int) { return 2; };
  double tolerance = 1e-8;
};
inline std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

inline Tensor reduced(const Tensor& x, ReduceOp how) { return all_reduce(x, {.reduce = how}); }

// Ring shift: every rank's x goes to the next one. Rank 0 sends first, so that no rank waits forever.
inline Tensor passed_on(const Tensor& x) {
  const CommWorld& world = current_world();
  const int next = (world.rank + 1) % world.ranks, before = (world.rank + world.ranks - 1) % world.ranks;
  const auto receive = [&](const Tensor& ticket) { return recv_from(ticket, {.from = before, .shape = x.shape()}); };
  if (world.rank == 0) {
    const Tensor receipt = send_to(x, {.to = next});
    return add(receive(receipt), receipt);
  }
  const Tensor y = receive(mul(sum(x), 0.0));
  return add(y, send_to(x, {.to = next}));
}

// Rows that four windows look at, some of them outside, and back: a rank has rows of both neighbours, or none.
inline op::HaloAttrs windows_of(int rank, int ranks) {
  return {.size = 7, .windows = 4, .stride = 2, .before = 2, .extent = 5, .fill = 0.5, .rank = rank, .ranks = ranks};
}
inline Tensor with_borders(const Tensor& x, const char* op) {
  const CommWorld& world = current_world();
  return apply1(find_op(op), {x}, windows_of(world.rank, world.ranks));
}

inline const Case kCases[] = {
    {"all_reduce_sum", [](const Tensor& x) { return reduced(x, ReduceOp::sum); }},
    {"all_reduce_mean", [](const Tensor& x) { return reduced(x, ReduceOp::mean); }},
    {"all_reduce_max", [](const Tensor& x) { return reduced(x, ReduceOp::max); }},
    {"all_reduce_min", [](const Tensor& x) { return reduced(x, ReduceOp::min); }},
    {"all_reduce_product", [](const Tensor& x) { return reduced(x, ReduceOp::product); }},
    {"broadcast", [](const Tensor& x) { return broadcast(x, {.root = 1}); }},
    {"reduce_to_root", [](const Tensor& x) { return reduce_to_root(x, {.root = 1}); }},
    {"all_gather", [](const Tensor& x) { return all_gather(x); }},
    {"all_gather_uneven", [](const Tensor& x) { return all_gather(x, {.rows = 4}); },
     [](int rank, int ranks) { return piece_of(4, rank, ranks).size; }},
    {"all_gather_of_empty_ranks", [](const Tensor& x) { return all_gather(x, {.rows = 1}); },
     [](int rank, int ranks) { return piece_of(1, rank, ranks).size; }},
    {"reduce_scatter_sum", [](const Tensor& x) { return reduce_scatter(x); }, [](int, int) { return 5; }},
    {"reduce_scatter_mean", [](const Tensor& x) { return reduce_scatter(x, {.reduce = ReduceOp::mean}); },
     [](int, int) { return 5; }},
    {"send_and_receive", passed_on},
    {"halo_uneven", [](const Tensor& x) { return with_borders(x, "halo"); },
     [](int rank, int ranks) { return op::rows_stored(windows_of(rank, ranks), rank).size; }},
    {"halo_add_uneven", [](const Tensor& x) { return with_borders(x, "halo_add"); },
     [](int rank, int ranks) { return op::rows_seen(windows_of(rank, ranks), rank).size; }},
    {"all_to_all", [](const Tensor& x) { return all_to_all(x); }, [](int, int ranks) { return 2 * ranks; }},
};

// Nonlinear loss that differs by rank, so that gradients are not constants.
inline Tensor loss_of(const Case& c, const Tensor& x, int rank) {
  const Tensor y = c.collective(mul(x, 1.0 + 0.5 * rank));
  return sum(mul(tanh(y), mul(y, 0.3 + 0.2 * rank)));
}

inline Tensor values_of(const Case& c, int rank, int ranks) {
  const Shape shape{c.rows(rank, ranks), 3};
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    values.push_back(std::sin(1.7 * static_cast<double>(i) + 2.1 * rank));
  return from_doubles(values, shape, DType::f64);
}

// dL/dx of this rank's elements by finite differences; collective: all ranks iterate over all elements.
inline std::vector<double> differences(const Case& c, Comm& comm, const Tensor& x) {
  constexpr double kStep = 1e-5;
  const NoGrad no_grad;
  const auto total = [&](const Tensor& moved) {
    double loss = loss_of(c, moved, comm.rank()).item();
    comm.all_reduce(&loss, &loss, 1, DType::f64, ReduceOp::sum).wait();
    return loss;
  };
  std::vector<double> found;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::int64_t elements = c.rows(rank, comm.size()) * 3;
    for (std::int64_t i = 0; i < elements; ++i) {
      double loss[2];
      for (int side = 0; side < 2; ++side) {
        std::vector<double> values = x.to_vector();
        if (rank == comm.rank()) values[static_cast<std::size_t>(i)] += side == 0 ? kStep : -kStep;
        loss[side] = total(from_doubles(values, x.shape(), DType::f64));
      }
      if (rank == comm.rank()) found.push_back((loss[0] - loss[1]) / (2 * kStep));
    }
  }
  return found;
}

inline void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance, int rank) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << "element " << i << " of rank " << rank;
}

inline Tensor eager_gradient(const Case& c, const Tensor& in, int rank) {
  Tensor x = in.detach();
  x.set_requires_grad();
  loss_of(c, x, rank).backward();
  return x.grad();
}

inline Tensor compiled_gradient(const Case& c, const Tensor& x, int rank) {
  auto f = compile([&](const Tensor& in) {
    Tensor leaf = in.detach();
    leaf.set_requires_grad();
    const Tensor loss = loss_of(c, leaf, rank);
    return gradients({&loss, 1}, {&leaf, 1});
  });
  return f(x)[0];
}

// Runs all cases in step with the other ranks. True if all held here; failures are printed.
inline bool all_hold(Comm& comm) {
  const CommScope scope(comm);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Tensor x = values_of(c, comm.rank(), comm.size());
    const std::vector<double> want = differences(c, comm, x);
    expect_near(eager_gradient(c, x, comm.rank()).to_vector(), want, c.tolerance, comm.rank());
    expect_near(compiled_gradient(c, x, comm.rank()).to_vector(), want, c.tolerance, comm.rank());
    comm.barrier({.name = c.name}).wait();
  }
  return !::testing::Test::HasFailure();
}

}  // namespace starling::collective_gradients
