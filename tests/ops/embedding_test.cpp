#include "starling/ops/api/embedding.h"

#include <gtest/gtest.h>

#include "starling/kernels/eager.h"
#include "starling/ops/def/attrs/embedding.h"
#include "starling/ops/def/attrs/row_sparse.h"
#include "starling/starling.h"

namespace starling {
namespace {

Tensor ints(std::vector<std::int64_t> values, Shape shape = {}) {
  if (shape.empty()) shape = {static_cast<std::int64_t>(values.size())};
  return from_host<std::int64_t>(values, shape);
}

Tensor table(std::int64_t rows, std::int64_t width, DType dtype = DType::f64) {
  std::vector<double> values(static_cast<std::size_t>(rows * width));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.25 * static_cast<double>((29 * i) % 31) - 3;
  return from_doubles(values, {rows, width}, dtype).set_requires_grad();
}

void expect_near(const Tensor& a, const Tensor& b, double tolerance = 1e-12) {
  ASSERT_EQ(a.shape(), b.shape());
  const auto x = a.to_vector(), y = b.to_vector();
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], tolerance) << i;
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Embedding, PaddingIsReadButNotTrained) {
  const Tensor w = table(4, 3);
  const Tensor y = embedding(ints({1, 3, 1}), w, {.padding_idx = -1});
  EXPECT_EQ(y.to_vector()[3], w.to_vector()[9]);
  for (bool sparse : {false, true}) {
    const Tensor loss = sum(embedding(ints({1, 3, 1}), w, {.padding_idx = 3, .sparse = sparse}));
    EXPECT_EQ(gradients({&loss, 1}, {&w, 1})[0].to_vector(), (std::vector<double>{0, 0, 0, 2, 2, 2, 0, 0, 0, 0, 0, 0}));
  }
  EXPECT_THROW(embedding(ints({1}), w, {.padding_idx = 4}), Error);
}

TEST(Embedding, IndicesOutOfRangeAreNamed) {
  const Tensor w = table(4, 3);
  for (const auto& text : {refusal([&] {
                             embedding(ints({1, 4}), w);
                           }),
                           refusal([&] {
                             const kernels::ReferenceScope reference;
                             embedding(ints({1, 4}), w);
                           })}) {
    EXPECT_NE(text.find("got 4 at position 1"), std::string::npos) << text;
  }
  EXPECT_NE(refusal([&] { embedding(ints({-1}), w); }).find("got -1 at position 0"), std::string::npos);
  EXPECT_THROW(embedding_bag(ints({1, 9}, {1, 2}), w), Error);
  EXPECT_THROW(op::embedding_backward(table(2, 3), ints({0, 7}), {4}), Error);
}

TEST(Embedding, GradientsDoNotDependOnThreads) {
  std::vector<std::int64_t> indices(5000);
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int64_t>((i * i + 7 * i) % 301);
  const Tensor dy = cast(normal({5000, 257}), DType::f32);
  std::vector<std::vector<double>> results;
  for (int threads : {1, 2, 3}) {
    const ThreadScope scope(threads);
    results.push_back(op::embedding_backward(dy, ints(indices), {301}).to_vector());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(Embedding, RowUpdatesDoNotDependOnThreads) {
  std::vector<std::int64_t> rows(5000);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>((i * i + 7 * i) % 3001);
  const Tensor values = normal({5000, 65});
  std::vector<std::vector<double>> results;
  for (int threads : {1, 2, 3}) {
    const ThreadScope scope(threads);
    Tensor w = zeros({3001, 65}), v = zeros({3001, 65});
    op::sgd_update_rows(w, v, ints(rows), values, scalar(0.5), {0.9, 0.1, false});
    results.push_back(w.to_vector());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

// Bags by rows, by offsets and by composition.
TEST(EmbeddingBag, IsTheReductionOfTheEmbeddings) {
  const Tensor w = table(5, 4);
  const Tensor square = ints({0, 3, 4, 1, 1, 2}, {2, 3}), flat = ints({0, 3, 4, 1, 1, 2});
  const Tensor rows = embedding(square, w);
  const Tensor expected[] = {sum(rows, {.axes = {1}}), mean(rows, {.axes = {1}}), max(rows, {.axes = {1}})};
  int i = 0;
  for (BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    for (bool sparse : {false, true}) {
      const Tensor by_rows = embedding_bag(square, w, {.mode = mode, .sparse = sparse});
      const Tensor by_offsets = embedding_bag(flat, w, {.mode = mode, .offsets = ints({0, 3}), .sparse = sparse});
      expect_near(by_rows, expected[i]);
      expect_near(by_offsets, expected[i]);
      const auto gradient = [&](const Tensor& y) {
        const Tensor loss = sum(mul(y, y));
        return gradients({&loss, 1}, {&w, 1})[0];
      };
      EXPECT_EQ(is_row_sparse(gradient(by_rows)), sparse);
      expect_near(gradient(by_rows), gradient(expected[i]));
      expect_near(gradient(by_offsets), gradient(expected[i]));
    }
    ++i;
  }
}

TEST(EmbeddingBag, WeighsItsSamples) {
  const Tensor w = table(5, 4);
  const Tensor flat = ints({0, 3, 4, 1, 1, 2});
  Tensor scale = from_doubles(std::vector<double>{1, 2, 0.5, -1, 3, 0.25}, {6}, DType::f64).set_requires_grad();
  const Tensor y = embedding_bag(flat, w, {.mode = BagMode::sum, .offsets = ints({0, 2}), .per_sample_weights = scale});
  const Tensor rows = mul(embedding(flat, w), reshape(scale, {6, 1}));
  const Tensor parts[] = {sum(slice(rows, {.axis = 0, .begin = 0, .end = 2}), {.axes = {0}, .keepdim = true}),
                          sum(slice(rows, {.axis = 0, .begin = 2, .end = 6}), {.axes = {0}, .keepdim = true})};
  const Tensor expected = concat(parts);
  expect_near(y, expected);
  const Tensor wanted[] = {w, scale};
  const Tensor a = sum(mul(y, y)), b = sum(mul(expected, expected));
  const TensorList got = gradients({&a, 1}, wanted), want = gradients({&b, 1}, wanted);
  expect_near(got[0], want[0]);
  expect_near(got[1], want[1]);
  EXPECT_THROW(embedding_bag(flat, w, {.offsets = ints({0}), .per_sample_weights = scale}), Error) << "of a mean";
}

TEST(EmbeddingBag, EmptyBagsAreZerosAndPaddingDoesNotCount) {
  const Tensor w = table(5, 4);
  for (BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    const Tensor y = embedding_bag(ints({2, 2, 4}), w, {.mode = mode, .offsets = ints({0, 0, 2}), .padding_idx = 4});
    const auto values = y.to_vector(), row = w.to_vector();
    for (std::size_t j = 0; j < 4; ++j) {
      EXPECT_EQ(values[j], 0);
      EXPECT_EQ(values[4 + j], row[8 + j] * (mode == BagMode::sum ? 2 : 1));
      EXPECT_EQ(values[8 + j], 0);
    }
  }
}

TEST(EmbeddingBag, RefusesOffsetsThatCutNothing) {
  const Tensor w = table(5, 4), flat = ints({0, 3, 4});
  for (const auto& offsets : {ints({1}), ints({0, 4}), ints({0, 2, 1})}) {
    const std::string text = refusal([&] { embedding_bag(flat, w, {.offsets = offsets}); });
    EXPECT_NE(text.find("position"), std::string::npos) << text;
  }
  EXPECT_THROW(embedding_bag(flat, w), Error) << "no offsets";
  EXPECT_THROW(embedding_bag(ints({0, 1}, {1, 2}), w, {.offsets = ints({0})}), Error) << "rows and offsets";
}

TEST(EmbeddingBag, TrainsCompiledOnTwoRanksAsOnOne) {
  const auto run = [](int workers) {
    Tensor w = table(6, 4).set_name("w");
    optim::Sgd opt({w}, {.lr = 0.1, .momentum = 0.9});
    auto step = compile(
        [&](const Tensor& indices) {
          const Tensor y = embedding_bag(indices, w, {.sparse = true});
          const Tensor loss = sum(mul(y, y));
          loss.backward();
          opt.step();
          return loss;
        },
        {.strategy = workers > 1 ? data_parallel({.workers = workers}) : nullptr});
    for (int i = 0; i < 3; ++i) step(ints({0, 1, 1, 5, 4, 0}, {3, 2}));
    int updates = 0;
    for (const auto& node : step.graph().nodes()) updates += is_op(node, "sgd_update_rows");
    EXPECT_EQ(updates, 1);
    return w.to_vector();
  };
  const auto one = run(1), two = run(2);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 1e-12);
}

TEST(CoalesceRows, RefusesRowsBelowZero) {
  const Tensor values = table(2, 3).detach();
  EXPECT_EQ(refusal([&] {
              coalesce(row_sparse(ints({2, -1}), values, {4, 3}));
            }),
            "[coalesce_rows] expected rows of at least 0, got -1");
}

}  // namespace
}  // namespace starling
