// Gradients of collectives, each held against finite differences of the sum of all ranks' losses.
#include <gtest/gtest.h>

#include <cmath>

#include "dist/comm_worlds.h"
#include "starling/dist/comm/comm_scope.h"
#include "starling/ops/comm.h"
#include "starling/starling.h"

namespace starling {
namespace {

struct Case {
  const char* name;
  std::function<Tensor(const Tensor&)> collective;
  std::function<std::int64_t(int rank, int ranks)> rows = [](int, int) { return 2; };
  double tolerance = 1e-8;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

Tensor reduced(const Tensor& x, const char* how) { return all_reduce(x, {.reduce = Symbol(how)}); }

const Case kCases[] = {
    {"all_reduce_sum", [](const Tensor& x) { return reduced(x, "sum"); }},
    {"all_reduce_mean", [](const Tensor& x) { return reduced(x, "mean"); }},
    {"all_reduce_max", [](const Tensor& x) { return reduced(x, "max"); }},
    {"all_reduce_min", [](const Tensor& x) { return reduced(x, "min"); }},
    {"all_reduce_product", [](const Tensor& x) { return reduced(x, "product"); }},
    {"broadcast", [](const Tensor& x) { return broadcast(x, {.root = 1}); }},
    {"reduce_to_root", [](const Tensor& x) { return reduce_to_root(x, {.root = 1}); }},
    {"all_gather", [](const Tensor& x) { return all_gather(x); }},
    {"all_gather_uneven", [](const Tensor& x) { return all_gather(x, {.rows = 4}); },
     [](int rank, int ranks) { return piece_of(4, rank, ranks).size; }},
    {"all_gather_of_empty_ranks", [](const Tensor& x) { return all_gather(x, {.rows = 1}); },
     [](int rank, int ranks) { return piece_of(1, rank, ranks).size; }},
    {"reduce_scatter_sum", [](const Tensor& x) { return reduce_scatter(x); }, [](int, int) { return 5; }},
    {"reduce_scatter_mean", [](const Tensor& x) { return reduce_scatter(x, {.reduce = Symbol("mean")}); },
     [](int, int) { return 5; }},
    {"all_to_all", [](const Tensor& x) { return all_to_all(x); }, [](int, int ranks) { return 2 * ranks; }},
};

// A loss of its own on every rank, curved, so that gradients are not constants.
Tensor loss_of(const Case& c, const Tensor& x, int rank) {
  const Tensor y = c.collective(mul(x, 1.0 + 0.5 * rank));
  return sum(mul(tanh(y), mul(y, 0.3 + 0.2 * rank)));
}

Tensor values_of(const Case& c, int rank, int ranks) {
  const Shape shape{c.rows(rank, ranks), 3};
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    values.push_back(std::sin(1.7 * static_cast<double>(i) + 2.1 * rank));
  return from_doubles(values, shape, DType::f64);
}

// dL/dx of this rank's elements by differences: all ranks walk through the elements of all.
std::vector<double> differences(const Case& c, Comm& comm, const Tensor& x) {
  constexpr double kStep = 1e-5;
  const NoGrad no_grad;
  const auto total = [&](const Tensor& moved) {
    double loss = loss_of(c, moved, comm.rank()).item();
    comm.all_reduce(&loss, &loss, 1, DType::f64, CommReduce::sum).wait();
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

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance, int rank) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << "element " << i << " of rank " << rank;
}

class CollectiveGradient : public ::testing::TestWithParam<std::tuple<Case, int>> {
 protected:
  // Runs `gradient` of x on every rank and holds it against differences.
  static void expect_right(const std::function<Tensor(const Tensor&, int rank)>& gradient) {
    const auto& [c, ranks] = GetParam();
    const Comms comms = checking_backend().make(ranks);
    std::mutex mutex;
    const auto errors = errors_of(comms, [&, &c = c](Comm& comm) {
      const CommScope scope(comm);
      const Tensor x = values_of(c, comm.rank(), comm.size());
      const std::vector<double> want = differences(c, comm, x);
      const std::vector<double> got = gradient(x, comm.rank()).to_vector();
      const std::scoped_lock lock(mutex);
      expect_near(got, want, c.tolerance, comm.rank());
    });
    for (const auto& error : errors) EXPECT_EQ(error, "");
  }
};

TEST_P(CollectiveGradient, OfEagerCodeIsThatOfTheSumOfAllLosses) {
  expect_right([](const Tensor& in, int rank) {
    Tensor x = in.detach();
    x.set_requires_grad();
    loss_of(std::get<0>(GetParam()), x, rank).backward();
    return x.grad();
  });
}

TEST_P(CollectiveGradient, OfACompiledFunctionIsThatOfTheSumOfAllLosses) {
  expect_right([](const Tensor& x, int rank) {
    auto f = compile([&](const Tensor& in) {
      Tensor leaf = in.detach();
      leaf.set_requires_grad();
      const Tensor loss = loss_of(std::get<0>(GetParam()), leaf, rank);
      return gradients({&loss, 1}, {&leaf, 1});
    });
    return f(x)[0];
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveGradient,
                         ::testing::Combine(::testing::ValuesIn(kCases), ::testing::Values(2, 3)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_of_" +
                                  std::to_string(std::get<1>(info.param));
                         });

// The body on every rank of a world, which must end well.
void on_ranks(int ranks, const std::function<void(Comm&)>& body) {
  const Comms comms = checking_backend().make(ranks);
  const auto errors = errors_of(comms, [&](Comm& comm) {
    const CommScope scope(comm);
    body(comm);
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

TEST(CollectiveGradient, OfEqualExtremesGoesToTheLowestRank) {
  on_ranks(3, [](Comm& comm) {
    Tensor x = from_doubles(std::vector<double>{comm.rank() == 0 ? 1.0 : 5.0, 2.0}, {2}, DType::f64);
    x.set_requires_grad();
    sum(reduced(x, "max")).backward();
    const std::vector<double> want = {comm.rank() == 1 ? 3.0 : 0.0, comm.rank() == 0 ? 3.0 : 0.0};
    EXPECT_EQ(x.grad().to_vector(), want) << "rank " << comm.rank();
  });
}

TEST(CollectiveGradient, OfAProductIsRightWhereAFactorIsZero) {
  on_ranks(3, [](Comm& comm) {
    const double first[] = {0, 2, 3}, second[] = {0, 0, 4};
    const auto r = static_cast<std::size_t>(comm.rank());
    Tensor x = from_doubles(std::vector<double>{first[r], second[r]}, {2}, DType::f64);
    x.set_requires_grad();
    sum(reduced(x, "product")).backward();
    const std::vector<double> want = {comm.rank() == 0 ? 3 * 6.0 : 0.0, 0.0};
    EXPECT_EQ(x.grad().to_vector(), want) << "rank " << comm.rank();
  });
}

TEST(Collectives, AloneHaveAWorldOfOneRank) {
  const Tensor x = from_doubles(std::vector<double>{1, 2, 3}, {3}, DType::f64);
  for (const Case& c : kCases) {
    if (std::string(c.name).find("uneven") != std::string::npos ||
        std::string(c.name).find("empty") != std::string::npos)
      continue;
    if (std::string(c.name) == "broadcast" || std::string(c.name) == "reduce_to_root") continue;  // their root is 1
    EXPECT_EQ(c.collective(x).to_vector(), x.to_vector()) << c.name;
  }
}

TEST(Collectives, OfAnotherWorldThanTheyWereMadeForAreRefused) {
  const auto errors = errors_of(checking_backend().make(2), [](Comm& comm) {
    const CommScope scope(comm);
    const PiecesAttrs three{.rank = 0, .ranks = 3};
    apply(find_op("all_gather"), {zeros({2})}, three);
  });
  for (const auto& error : errors) EXPECT_TRUE(contains(error, "expected a communicator in which this is rank 0 of 3"));
}

TEST(CommScope, EndsWithItsBlock) {
  on_ranks(2, [](Comm& comm) {
    EXPECT_EQ(current_world().ranks, 2);
    EXPECT_EQ(current_world().rank, comm.rank());
    {
      const WorldScope alone({});
      EXPECT_EQ(all_reduce(full({1}, 1.0)).item(), 1);
    }
    EXPECT_EQ(all_reduce(full({1}, 1.0)).item(), 2);
  });
}

}  // namespace
}  // namespace starling
