#include "starling/ops/api/row_sparse.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/autograd_testing.h"
#include "starling/ops/api/embedding.h"
#include "starling/ops/def/attrs/row_sparse.h"

namespace starling {
namespace {

using testing::leaf;
using testing::named;

Tensor indices_of(std::vector<std::int64_t> values) {
  return from_host<std::int64_t>(values, {static_cast<std::int64_t>(values.size())});
}

Tensor table(std::int64_t rows, std::int64_t width, double phase, DType dtype = DType::f64) {
  std::vector<double> values(static_cast<std::size_t>(rows * width));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = phase + 0.01 * static_cast<double>((37 * i) % 101);
  return from_doubles(values, {rows, width}, dtype);
}

Tensor sparse_of(std::vector<std::int64_t> rows, double phase, std::int64_t height = 6, std::int64_t width = 3) {
  const auto n = static_cast<std::int64_t>(rows.size());
  return row_sparse(indices_of(std::move(rows)), table(n, width, phase), {height, width});
}

TEST(RowSparse, IsDenseForEveryOpAndEveryReader) {
  const Tensor s = sparse_of({4, 1, 4}, 1);
  EXPECT_TRUE(is_row_sparse(s));
  EXPECT_EQ(s.shape(), (Shape{6, 3}));
  const auto whole = dense(s).to_vector();
  EXPECT_DOUBLE_EQ(whole[3], 1 + 0.01 * 111 - 0.01 * 101 * 1);  // row 1 holds the values of entry 1
  EXPECT_EQ(mul(s, 2.0).to_vector()[3], 2 * whole[3]);
  EXPECT_EQ(sum(s).item(), sum(dense(s)).item());
  EXPECT_TRUE(is_row_sparse(s)) << "ops leave it as it is";
  EXPECT_TRUE(is_row_sparse(s.detach()));
  EXPECT_EQ(s.to_vector(), whole);
  EXPECT_FALSE(is_row_sparse(s)) << "who reads the memory makes it dense";
}

TEST(RowSparse, RefusesPartsThatDoNotFit) {
  EXPECT_THROW(row_sparse(indices_of({1, 2}), table(3, 3, 0), {6, 3}), Error);
  EXPECT_THROW(row_sparse(indices_of({1, 2}), table(2, 4, 0), {6, 3}), Error);
  EXPECT_THROW(rows_of(table(2, 2, 0)), Error);
  EXPECT_THROW(dense(sparse_of({1, 6}, 0)), Error) << "row 6 of 6";
}

TEST(RowSparse, SumsAreRowSparseWhereBothAre) {
  const Tensor a = sparse_of({4}, 1), b = sparse_of({4, 0}, 2);
  const Tensor both = op::add_gradients(a, b);
  EXPECT_TRUE(is_row_sparse(both));
  EXPECT_EQ(rows_of(both).numel(), 3);
  EXPECT_EQ(dense(both).to_vector(), add(dense(a), dense(b)).to_vector());
  EXPECT_FALSE(is_row_sparse(op::add_gradients(a, dense(b))));
  Tensor many = a;
  for (int i = 0; i < 10; ++i) many = op::add_gradients(many, b);
  EXPECT_LE(rows_of(many).numel(), 6) << "never more than the dense form";
}

TEST(RowSparse, CoalescedHasEveryRowOnceInOrder) {
  const Tensor s = sparse_of({5, 1, 5, 0, 1, 5}, 1);
  const Tensor c = coalesce(s);
  EXPECT_EQ(rows_of(c).to_vector(), (std::vector<double>{0, 1, 5}));
  const auto a = dense(s).to_vector(), b = dense(c).to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_DOUBLE_EQ(a[i], b[i]);
}

Tensor loss_of(const Tensor& w, const Tensor& indices, bool sparse) {
  const Tensor e = embedding(indices, w, {.sparse = sparse});
  return sum(mul(e, mul(e, 0.5)));
}

TEST(RowSparse, GradientsOfEmbeddingsEqualTheDenseOnes) {
  const Tensor indices = indices_of({3, 0, 3, 5});
  const Tensor w = leaf(table(8, 4, 1));
  loss_of(w, indices, true).backward();
  EXPECT_TRUE(is_row_sparse(w.grad()));
  loss_of(w, indices, true).backward();
  EXPECT_TRUE(is_row_sparse(w.grad()));
  const Tensor plain = leaf(table(8, 4, 1));
  loss_of(plain, indices, false).backward();
  loss_of(plain, indices, false).backward();
  EXPECT_FALSE(is_row_sparse(plain.grad()));
  const auto a = w.grad().to_vector(), b = plain.grad().to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_DOUBLE_EQ(a[i], b[i]);
}

TEST(RowSparse, GradientsDoNotShareTheCallersIndices) {
  const Tensor indices = indices_of({1, 2});
  const Tensor w = leaf(table(8, 4, 1));
  loss_of(w, indices, true).backward();
  copy_into(indices, indices_of({7, 7}));
  EXPECT_EQ(rows_of(w.grad()).to_vector(), (std::vector<double>{1, 2}));
}

TEST(RowSparse, SecondDerivativesFlowThroughIndicesAndValues) {
  const Tensor indices = indices_of({1, 2, 1});
  const TensorFn with = [&](const Tensor& w) { return loss_of(w, indices, true); };
  const TensorFn without = [&](const Tensor& w) { return loss_of(w, indices, false); };
  const Tensor x = table(4, 2, 1), v = table(4, 2, 3);
  EXPECT_EQ(hessian_vector_product(with, x, v).to_vector(), hessian_vector_product(without, x, v).to_vector());
}

// Weights and velocities after three steps.
std::vector<double> trained(const std::vector<std::int64_t>& indices, bool sparse, bool compiled,
                            const optim::SgdOptions& options, std::shared_ptr<runtime::Strategy> strategy = nullptr) {
  Tensor w = named(leaf(table(6, 4, 1)), "w");
  optim::Sgd opt({w}, options);
  const auto body = [&](const Tensor& at) {
    const Tensor loss = loss_of(w, at, sparse);
    loss.backward();
    opt.step();
    return loss;
  };
  auto f = compile(body, {.strategy = std::move(strategy)});
  for (int i = 0; i < 3; ++i) compiled ? f(indices_of(indices)) : body(indices_of(indices));
  auto all = w.to_vector();
  const auto velocity = opt.state()[1].second.to_vector();
  all.insert(all.end(), velocity.begin(), velocity.end());
  return all;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
}

TEST(RowSparse, SgdIsTheDenseOneWhereEveryRowOccurs) {
  const std::vector<std::int64_t> all{3, 0, 1, 2, 3, 4, 5, 5};
  for (const bool compiled : {false, true}) {
    for (const bool nesterov : {false, true}) {
      const optim::SgdOptions options{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.05, .nesterov = nesterov};
      expect_near(trained(all, true, compiled, options), trained(all, false, false, options), 1e-12);
    }
  }
}

// Velocities are not compared: without momentum they mean nothing.
TEST(RowSparse, PlainSgdIsTheDenseOneWhateverOccurs) {
  const auto weights = [](bool sparse, bool compiled) {
    auto all = trained({3, 0, 3}, sparse, compiled, {.lr = 0.1});
    all.resize(all.size() / 2);
    return all;
  };
  for (const bool compiled : {false, true}) expect_near(weights(true, compiled), weights(false, false), 1e-12);
}

TEST(RowSparse, MomentumAndDecayOfRowsThatDoNotOccurAreLazy) {
  const Tensor before = table(6, 4, 1);
  const auto after = trained({3, 3}, true, false, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.5});
  const auto start = before.to_vector();
  for (std::size_t i = 0; i < start.size(); ++i) {
    if (i / 4 == 3)
      EXPECT_NE(after[i], start[i]);
    else
      EXPECT_EQ(after[i], start[i]);
  }
}

TEST(RowSparse, TwoRanksTrainLikeOne) {
  for (const auto& indices : {std::vector<std::int64_t>{3, 0, 3, 5}, std::vector<std::int64_t>{1, 1, 2}}) {
    const optim::SgdOptions options{.lr = 0.1, .momentum = 0.9};
    for (const bool deterministic : {false, true}) {
      const auto two = data_parallel({.workers = 2, .deterministic = deterministic});
      expect_near(trained(indices, true, true, options, two), trained(indices, true, false, options), 1e-12);
    }
  }
}

TEST(RowSparse, AGradientLeftInACompiledSlotIsAccumulated) {
  Tensor w = named(leaf(table(6, 4, 1)), "w"), plain = leaf(table(6, 4, 1));
  auto f = compile([&](const Tensor& at) {
    const Tensor loss = loss_of(w, at, true);
    loss.backward();
    return loss;
  });
  for (int i = 0; i < 3; ++i) {
    f(indices_of({2, 5}));
    loss_of(plain, indices_of({2, 5}), false).backward();
  }
  expect_near(w.grad().to_vector(), plain.grad().to_vector(), 1e-12);
}

TEST(RowSparse, CompiledFunctionsTakeAndGiveTheDenseForm) {
  Tensor w = named(leaf(table(6, 4, 1)), "w");
  auto f = compile([&](const Tensor& at, const Tensor& more) {
    const Tensor loss = loss_of(w, at, true);
    const Tensor g = gradients({&loss, 1}, {&w, 1})[0];
    EXPECT_TRUE(is_row_sparse(g));
    return TensorList{g, add(g, more)};
  });
  const Tensor more = sparse_of({2, 5}, 3, 6, 4);
  const auto extra = dense(more).to_vector();
  const TensorList out = f(indices_of({2, 5, 2}), more);
  const Tensor loss = loss_of(w, indices_of({2, 5, 2}), false);
  const auto expected = gradients({&loss, 1}, {&w, 1})[0].to_vector();
  expect_near(out[0].to_vector(), expected, 1e-12);
  for (std::size_t i = 0; i < extra.size(); ++i) EXPECT_NEAR(out[1].to_vector()[i], expected[i] + extra[i], 1e-12);
}

TEST(RowSparse, ALeftoverOfEagerCodeIsUsedUpByACompiledStep) {
  Tensor w = named(leaf(table(6, 4, 1)), "w"), plain = named(leaf(table(6, 4, 1)), "w");
  optim::Sgd opt({w}, {.lr = 0.1}), other({plain}, {.lr = 0.1});
  loss_of(w, indices_of({2, 5}), true).backward();
  loss_of(plain, indices_of({2, 5}), false).backward();
  auto f = compile([&](const Tensor& x) {
    opt.step();
    return mul(x, 1.0);
  });
  f(table(1, 1, 0));
  other.step();
  expect_near(w.to_vector(), plain.to_vector(), 1e-12);
}

TEST(RowSparse, SecondDerivativesPassThroughSumsOfManyEntries) {
  // With more entries than rows, the sum is not kept as a list.
  const Tensor first = indices_of({0, 1, 2, 1, 0, 2}), second = indices_of({2, 2, 0, 1, 1, 1});
  const auto f = [&](bool sparse) -> TensorFn {
    return [&, sparse](const Tensor& w) {
      const Tensor a = embedding(first, w, {.sparse = sparse}), b = embedding(second, w, {.sparse = sparse});
      return sum(mul(mul(a, a), mul(b, b)));
    };
  };
  const Tensor w = table(3, 2, 1), v = table(3, 2, 0.5);
  const auto want = hessian_vector_product(f(false), w, v).to_vector();
  const auto got = hessian_vector_product(f(true), w, v).to_vector();
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_GT(std::abs(want[i]), 0.1);
    EXPECT_NEAR(got[i], want[i], 1e-10);
  }
}

}  // namespace
}  // namespace starling
