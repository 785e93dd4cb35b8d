// Gradients of collectives against finite differences of the sum of all ranks' losses.
#include "dist/collective_gradients.h"

#include <gtest/gtest.h>

namespace starling::dist {
namespace {

using namespace collective_gradients;

class CollectiveGradient : public ::testing::TestWithParam<std::tuple<Case, int>> {
 protected:
  // Compares `gradient` of x on every rank with finite differences.
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
  expect_right([](const Tensor& x, int rank) { return eager_gradient(std::get<0>(GetParam()), x, rank); });
}

TEST_P(CollectiveGradient, OfACompiledFunctionIsThatOfTheSumOfAllLosses) {
  expect_right([](const Tensor& x, int rank) { return compiled_gradient(std::get<0>(GetParam()), x, rank); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveGradient,
                         ::testing::Combine(::testing::ValuesIn(kCases), ::testing::Values(2, 3)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_of_" +
                                  std::to_string(std::get<1>(info.param));
                         });

// Runs the body on every rank of a world; no rank may fail.
void on_ranks(int ranks, const std::function<void(Comm&)>& body) {
  const Comms comms = checking_backend().make(ranks);
  const auto errors = errors_of(comms, [&](Comm& comm) {
    const CommScope scope(comm);
    body(comm);
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

TEST(CollectiveGradient, OfTiedMaximaGoesToTheLowestRank) {
  on_ranks(3, [](Comm& comm) {
    Tensor x = from_doubles(std::vector<double>{comm.rank() == 0 ? 1.0 : 5.0, 2.0}, {2}, DType::f64);
    x.set_requires_grad();
    sum(reduced(x, ReduceOp::max)).backward();
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
    sum(reduced(x, ReduceOp::product)).backward();
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
    if (std::string(c.name) == "send_and_receive") continue;  // no peer
    if (std::string(c.name) == "broadcast" || std::string(c.name) == "reduce_to_root")
      continue;  // the root of both is 1
    EXPECT_EQ(c.collective(x).to_vector(), x.to_vector()) << c.name;
  }
}

TEST(Messages, GoToAnotherRankOfTheWorldOnly) {
  const auto errors = errors_of(checking_backend().make(2), [](Comm& comm) {
    const CommScope scope(comm);
    send_to(zeros({3}), {.to = comm.rank() == 0 ? 0 : 2});
  });
  EXPECT_TRUE(contains(errors[0], "[send_to] expected another rank of 2, got 0 on rank 0"));
  EXPECT_TRUE(contains(errors[1], "[send_to] expected another rank of 2, got 2 on rank 1"));
  EXPECT_THROW(recv_from(zeros({3}), {.from = 1, .shape = {2}}), Error);
}

TEST(Messages, OfDifferentShapesAreNamedOnBothSides) {
  const auto errors = errors_of(checking_backend().make(2), [](Comm& comm) {
    const CommScope scope(comm);
    if (comm.rank() == 0) {
      send_to(zeros({3}), {.to = 1});
    } else {
      recv_from(zeros({}), {.from = 0, .shape = {4}});
    }
  });
  for (const auto& error : errors) EXPECT_FALSE(error.empty());
}

TEST(Messages, WithoutAPeerAreZeros) {
  EXPECT_EQ(send_to(full({3}, 2.0), {.to = 1}).item(), 0);
  EXPECT_EQ(recv_from(zeros({}), {.from = 1, .shape = {2}}).to_vector(), (std::vector<double>{0, 0}));
}

TEST(Collectives, OfAnotherWorldThanTheyWereMadeForAreRefused) {
  const auto errors = errors_of(checking_backend().make(2), [](Comm& comm) {
    const CommScope scope(comm);
    const op::PiecesAttrs three{.rank = 0, .ranks = 3};
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
}  // namespace starling::dist
