#include "starling/dist/strategy/gradient_reducer.h"

#include <gtest/gtest.h>

#include "dist/comm_worlds.h"
#include "runtime/step_testing.h"
#include "starling/dist/comm/comm_scope.h"

namespace starling::dist {
namespace {

using testing::relative_l2;

constexpr std::int64_t kWidth = 5;
constexpr std::int64_t kSamples = 7;

// A net whose graph depends on the rank and on the step: rows take one of two branches, `shared` is in both, `never` in
// none.
struct Branches {
  Tensor left, right, shared, never;

  explicit Branches(DType dtype) {
    manual_seed(11);
    const auto made = [&](const char* name) {
      Tensor t = cast(normal({kWidth, kWidth}), dtype);
      t.set_name(name).set_requires_grad();
      return t;
    };
    left = made("left");
    right = made("right");
    shared = made("shared");
    never = made("never");
  }

  std::vector<Tensor> parameters() const { return {shared, left, right, never, shared}; }

  // Sum of the rows' losses; rows of even number take the left branch in even steps.
  Tensor loss(const Tensor& rows, std::int64_t first, int step) const {
    Tensor total;
    for (std::int64_t r = 0; r < rows.shape()[0]; ++r) {
      const bool goes_left = (first + r + step) % 2 == 0;
      const Tensor row = slice(rows, {.axis = 0, .begin = r, .end = r + 1});
      const Tensor hidden = tanh(matmul(tanh(matmul(row, shared)), goes_left ? left : right));
      const Tensor out = sum(mul(matmul(hidden, shared), 0.1));
      total = total.defined() ? add(total, out) : out;
    }
    return total;
  }
};

Tensor all_rows(DType dtype) {
  manual_seed(3);
  return cast(normal({kSamples, kWidth}), dtype);
}

struct Outcome {
  std::vector<std::vector<double>> gradients;  // empty: no gradient
  std::size_t buckets = 0, early = 0;
};

std::vector<std::vector<double>> gradients_of(const Branches& net) {
  std::vector<std::vector<double>> all;
  for (const auto& p : net.parameters())
    all.push_back(p.grad().defined() ? p.grad().to_vector() : std::vector<double>{});
  return all;
}

// Results of every rank after `steps` steps.
std::vector<Outcome> run(int ranks, std::int64_t samples, DType dtype, int steps,
                         const GradientReducerOptions& options) {
  const Comms comms = checking_backend().make(ranks);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  const auto errors = errors_of(comms, [&](Comm& comm) {
    const Branches net(dtype);
    const Tensor batch = all_rows(dtype);
    const Piece own = piece_of(samples, comm.rank(), comm.size());
    const Tensor rows = slice(batch, {.axis = 0, .begin = own.begin, .end = own.begin + own.size});
    GradientReducer reducer(comm, net.parameters(), options);
    Outcome& outcome = outcomes[static_cast<std::size_t>(comm.rank())];
    for (int step = 0; step < steps; ++step) {
      for (const auto& p : net.parameters()) p.set_grad(Tensor());
      reducer.begin(static_cast<double>(own.size));
      if (own.size > 0) mul(net.loss(rows, own.begin, step), 1.0 / static_cast<double>(own.size)).backward();
      reducer.finish();
    }
    outcome = {gradients_of(net), reducer.buckets(), reducer.left_early()};
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
  return outcomes;
}

std::vector<std::vector<double>> alone(std::int64_t samples, DType dtype, int step) {
  const Branches net(dtype);
  const Tensor rows = slice(all_rows(dtype), {.axis = 0, .begin = 0, .end = samples});
  mul(net.loss(rows, 0, step), 1.0 / static_cast<double>(samples)).backward();
  return gradients_of(net);
}

void expect_close(const std::vector<std::vector<double>>& got, const std::vector<std::vector<double>>& want,
                  double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].size(), want[i].size()) << "parameter " << i;
    for (std::size_t k = 0; k < want[i].size(); ++k)
      EXPECT_NEAR(got[i][k], want[i][k], tolerance * (1 + std::abs(want[i][k]))) << "parameter " << i;
  }
}

TEST(GradientReducer, GivesBranchingRanksTheGradientsOfOneProcess) {
  for (const int ranks : {2, 3}) {
    for (const std::size_t bucket : {std::size_t{1}, std::size_t{1} << 20}) {  // every gradient alone, or all together
      for (const auto& outcome : run(ranks, kSamples, DType::f64, 3, {bucket, bucket}))
        expect_close(outcome.gradients, alone(kSamples, DType::f64, 2), 1e-12);
    }
  }
}

TEST(GradientReducer, LeavesUnusedGradientsUndefinedAndFillsThoseUsedOnAnyRank) {
  // One row: rank 0 takes the left branch, rank 1 has no rows.
  const auto outcomes = run(2, 1, DType::f64, 1, {});
  for (const auto& outcome : outcomes) {
    EXPECT_FALSE(outcome.gradients[1].empty()) << "left is used on rank 0";
    EXPECT_TRUE(outcome.gradients[2].empty()) << "right is used nowhere";
    EXPECT_TRUE(outcome.gradients[3].empty());
    expect_close(outcome.gradients, alone(1, DType::f64, 0), 1e-12);
  }
}

TEST(GradientReducer, WeighsByRowsAndAcceptsRanksWithoutRows) {
  for (const auto& outcome : run(4, 3, DType::f64, 2, {}))
    expect_close(outcome.gradients, alone(3, DType::f64, 1), 1e-12);
}

TEST(GradientReducer, SumsHalvesInF32) {
  for (const auto& outcome : run(2, 6, DType::bf16, 1, {}))
    expect_close(outcome.gradients, alone(6, DType::bf16, 0), 0.03);
}

TEST(GradientReducer, SendsBucketsWhileBackwardRunsUnlessSwitchedOff) {
  const auto early = run(2, 6, DType::f32, 1, {.bucket_bytes = 1, .first_bucket_bytes = 1});
  const auto late = run(2, 6, DType::f32, 1, {.bucket_bytes = 1, .first_bucket_bytes = 1, .overlap = false});
  EXPECT_EQ(early[0].buckets, 4u);  // shared counts once, however often it is passed
  EXPECT_EQ(early[0].early, 0u) << "the first bucket is of a parameter that nobody uses: it leaves with finish()";
  EXPECT_EQ(late[0].early, 0u);
  expect_close(early[0].gradients, late[0].gradients, 0);
}

TEST(GradientReducer, SendsUsedBucketsEarly) {
  const auto errors = errors_of(checking_backend().make(2), [](Comm& comm) {
    const Branches net(DType::f64);
    const Tensor used[] = {net.shared, net.left};
    GradientReducer reducer(comm, used, {.bucket_bytes = 1, .first_bucket_bytes = 1});
    reducer.begin(1);
    net.loss(slice(all_rows(DType::f64), {.axis = 0, .begin = 0, .end = 1}), 0, 0).backward();
    EXPECT_EQ(reducer.left_early(), 2u);
    reducer.finish();
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

TEST(GradientReducer, AccumulatesBackwardPassesBeforeTheLast) {
  const auto errors = errors_of(checking_backend().make(2), [](Comm& comm) {
    const Branches net(DType::f64);
    const Tensor used[] = {net.shared, net.left};
    GradientReducer reducer(comm, used);
    const Tensor row = slice(all_rows(DType::f64), {.axis = 0, .begin = 0, .end = 1});
    net.loss(row, 0, 0).backward();
    const auto once = net.left.grad().to_vector();
    reducer.begin(1);
    net.loss(row, 0, 0).backward();
    reducer.finish();
    const auto twice = net.left.grad().to_vector();
    for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(twice[i], 2 * once[i], 1e-12);
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

TEST(GradientReducer, RefusesASecondPassAfterBegin) {
  const auto errors = errors_of(checking_backend().make(2), [](Comm& comm) {
    const Branches net(DType::f64);
    const Tensor used[] = {net.shared, net.left};
    GradientReducer reducer(comm, used);
    const Tensor row = slice(all_rows(DType::f64), {.axis = 0, .begin = 0, .end = 1});
    reducer.begin(1);
    net.loss(row, 0, 0).backward();
    net.loss(row, 0, 0).backward();
  });
  for (const auto& error : errors) EXPECT_TRUE(contains(error, "begin() and finish()")) << error;
}

// With nothing sent yet: the others wait for its first bucket.
TEST(GradientReducer, ThatGoesBetweenBeginAndFinishBreaksTheGroup) {
  const auto errors = errors_of(checking_backend().make(2), [](Comm& comm) {
    const Branches net(DType::f64);
    const Tensor used[] = {net.shared, net.left};
    GradientReducer reducer(comm, used);
    reducer.begin(1);
    if (comm.rank() == 0) return;
    reducer.finish();
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_TRUE(contains(errors[1], "given up between begin() and finish()")) << errors[1];
}

// The only rank keeps no other one waiting, and goes on.
TEST(GradientReducer, ThatGoesBetweenBeginAndFinishLeavesAGroupOfOneWhole) {
  const auto errors = errors_of(checking_backend().make(1), [](Comm& comm) {
    const Branches net(DType::f64);
    const Tensor used[] = {net.shared};
    GradientReducer(comm, used).begin(1);
    GradientReducer reducer(comm, used);
    reducer.begin(1);
    reducer.finish();
  });
  EXPECT_EQ(errors[0], "");
}

TEST(GradientReducer, RefusesRanksWithDifferentParameters) {
  const auto errors = errors_of(checking_backend().make(2), [](Comm& comm) {
    const Branches net(DType::f32);
    const Tensor mine[] = {net.shared, comm.rank() == 0 ? net.left : net.right};
    const GradientReducer reducer(comm, mine);
  });
  EXPECT_TRUE(contains(errors[0], "at place 1; here, on rank 0, it is 'left' f32[5, 5]"));
  EXPECT_TRUE(contains(errors[1], "at place 1; here, on rank 1, it is 'right' f32[5, 5]"));
}

// Averages of gradients would keep the difference for ever.
TEST(GradientReducer, RefusesRanksThatBeginWithDifferentWeights) {
  const auto errors = errors_of(checking_backend().make(3), [](Comm& comm) {
    const Branches net(DType::f32);
    if (comm.rank() == 2) net.left.data<float>()[7] += 1;
    const Tensor mine[] = {net.shared, net.left, net.right};
    const GradientReducer reducer(comm, mine);
  });
  for (const std::string& error : errors)
    EXPECT_TRUE(contains(error, "a difference in 1 of 3: rank 2 differs from the others; first in '1 left'")) << error;
}

// Control: reductions in each rank's own graph order.
TEST(GradientReducer, ControlWithoutItABranchThatReordersReductionsIsAnErrorAndNoHang) {
  const Comms comms = wrap(make_thread_comms(2, {.deadline = std::chrono::milliseconds(20'000)}), make_checking);
  const CommTime start = CommClock::now();
  const auto errors = errors_of(comms, [](Comm& comm) {
    const CommScope scope(comm);
    const Branches net(DType::f64);
    const auto reduce_when_filled = [](const Tensor& leaf) {
      leaf.set_grad(all_reduce(leaf.grad(), {.name = Symbol(leaf.name())}));
    };
    for (const auto& p : {net.shared, net.left, net.right}) p.register_filled_hook(reduce_when_filled);
    net.loss(slice(all_rows(DType::f64), {.axis = 0, .begin = 0, .end = 1}), comm.rank(), 0).backward();
  });
  EXPECT_TRUE(contains(errors[0] + errors[1], "'left'"));
  EXPECT_TRUE(contains(errors[0] + errors[1], "'right'"));
  EXPECT_TRUE(contains(errors[0] + errors[1], "disagree: rank 0 calls"));
  EXPECT_LT(seconds_since(start), 10);
}

}  // namespace
}  // namespace starling::dist
