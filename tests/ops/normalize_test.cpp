#include "starling/ops/api/normalize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/op_checks.h"
#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/eager.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace starling {
namespace {

Tensor drawn(const Shape& shape, DType dtype, double mean = 0, double width = 1, unsigned seed = 5) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(mean, width);
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (auto& v : values) v = normal(random);
  return from_doubles(values, shape, dtype);
}

// Sizes beyond the sample calls: several runs, chunks, strips and pieces, on one thread and on three.
void expect_as_reference(const char* name, const TensorList& in, const Attrs& attrs) {
  const OpDef& op = find_op(name);
  const std::span<const Tensor> operands{in.data(), in.size()};
  const TensorList want = [&] {
    const kernels::ReferenceScope reference;
    return apply(op, operands, attrs);
  }();
  for (const int threads : {1, 3}) {
    const ThreadScope scope(threads);
    const TensorList got = apply(op, operands, attrs);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_LE(testing::difference(got[i], want[i]), 3e-5) << name << " output " << i << ", " << threads << " threads";
  }
}

TEST(Normalisation, OfLargeTensorsAgreesWithTheReference) {
  for (const Shape& x : {Shape{3, 5, 40, 41}, Shape{2, 3, 20000}, Shape{300, 130}, Shape{70, 9, 3}}) {
    const Tensor in = drawn(x, DType::f32, 3), dy = drawn(x, DType::f32, 0.5, 1, 6);
    const Tensor w = drawn({x[1]}, DType::f32, 1, 1, 7), b = drawn({x[1]}, DType::f32, 0, 1, 8);
    const TensorList out = apply(find_op("batch_norm_train"), {in, w, b}, op::EpsAttrs{});
    expect_as_reference("batch_norm_train", {in, w, b}, op::EpsAttrs{});
    expect_as_reference("batch_norm_infer", {in, out[1], out[2], w, b}, op::EpsAttrs{});
    expect_as_reference("channel_squares", {in, out[1]}, op::NoAttrs{});
  }
  const Shape x{400, 300};
  const Tensor in = drawn(x, DType::f32, 3), w = drawn({300}, DType::f32, 1, 1, 7), b = drawn({300}, DType::f32);
  expect_as_reference("layer_norm", {in, w, b}, op::LayerNormAttrs{});
  expect_as_reference("rms_norm", {in, w}, op::LayerNormAttrs{});
  const Tensor image = drawn({4, 6, 30, 31}, DType::f32, 3), cw = drawn({6}, DType::f32), cb = drawn({6}, DType::f32);
  expect_as_reference("group_norm", {image, cw, cb}, op::GroupNormAttrs{.groups = 2});
  expect_as_reference("instance_norm", {image, cw, cb}, op::EpsAttrs{});
}

TEST(Normalisation, BackwardOfLargeTensorsAgreesWithTheReference) {
  // Gradients of weights are sums over thousands: they are compared in double.
  const auto same = [](const char* name, const TensorList& in, const Attrs& attrs) {
    const std::span<const Tensor> operands{in.data(), in.size()};
    const TensorList want = [&] {
      const kernels::ReferenceScope reference;
      return apply(find_op(name), operands, attrs);
    }();
    const ThreadScope scope(3);
    const TensorList got = apply(find_op(name), operands, attrs);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_LE(testing::difference(got[i], want[i]), 1e-10) << name << " output " << i;
  };
  const DType d = DType::f64;
  for (const Shape& x : {Shape{3, 5, 40, 41}, Shape{300, 130}}) {
    const Tensor mean = drawn({x[1]}, d), var = add(mul(mean, mean), 0.5), w = drawn({x[1]}, d, 1, 1, 9);
    same("batch_norm_train_backward", {drawn(x, d), drawn(x, d, 0, 1, 6), mean, var, w}, op::EpsAttrs{});
    same("batch_norm_infer_backward", {drawn(x, d), drawn(x, d, 0, 1, 6), mean, var, w}, op::EpsAttrs{});
  }
  const Shape x{400, 300};
  const Tensor mean = drawn({400}, d), var = add(mul(mean, mean), 0.5), w = drawn({300}, d);
  same("layer_norm_backward", {drawn(x, d), drawn(x, d, 0, 1, 6), mean, var, w}, op::LayerNormAttrs{});
  same("rms_norm_backward", {drawn(x, d), drawn(x, d, 0, 1, 6), var, w}, op::LayerNormAttrs{});
  const Shape images{4, 6, 30, 31};
  const Tensor means = drawn({4, 2}, d), vars = add(mul(means, means), 0.5), cw = drawn({6}, d);
  same("group_norm_backward", {drawn(images, d), drawn(images, d, 0, 1, 6), means, vars, cw},
       op::GroupNormAttrs{.groups = 2});
}

TEST(Normalisation, SurvivesALargeMean) {
  const Tensor x = drawn({64, 4, 9}, DType::f32, 1e5, 1);
  const auto [y, mean, var] = batch_norm(x);
  const auto rows = layer_norm(drawn({3, 500}, DType::f32, 1e5, 1));
  for (const double v : var.to_vector()) EXPECT_NEAR(v, 1, 0.2);
  double squares = 0;
  for (const double v : y.to_vector()) squares += v * v;
  EXPECT_NEAR(squares / static_cast<double>(y.numel()), 1, 1e-3);
  squares = 0;
  for (const double v : rows.to_vector()) squares += v * v;
  EXPECT_NEAR(squares / static_cast<double>(rows.numel()), 1, 1e-3);
}

TEST(Normalisation, WithGlobalStatisticsGivesTheSameOnOneProcess) {
  Tensor x = drawn({6, 3, 5}, DType::f64), w = drawn({3}, DType::f64, 1), b = drawn({3}, DType::f64);
  x.set_requires_grad();
  w.set_requires_grad();
  const Tensor aim = drawn({6, 3, 5}, DType::f64, 0, 1, 9);
  TensorList found[2];
  for (const bool global : {false, true}) {
    const auto [y, mean, var] = batch_norm(x, w, b, {.global_statistics = global});
    const Tensor loss[] = {sum(mul(y, aim))}, inputs[] = {x, w};
    found[global] = gradients(loss, inputs);
    for (const auto& t : {y, mean, var}) found[global].push_back(t);
  }
  for (std::size_t i = 0; i < found[0].size(); ++i)
    EXPECT_LE(testing::difference(found[1][i], found[0][i]), 1e-12) << i;
}

TEST(Normalisation, OfNothingIsNothing) {
  EXPECT_EQ(layer_norm(zeros({0, 0})).shape(), (Shape{0, 0}));
  EXPECT_EQ(rms_norm(zeros({0, 4})).shape(), (Shape{0, 4}));
  EXPECT_EQ(group_norm(zeros({0, 4, 0}), {}, {}, {.groups = 2}).shape(), (Shape{0, 4, 0}));
  EXPECT_EQ(instance_norm(zeros({0, 2, 0})).shape(), (Shape{0, 2, 0}));
  EXPECT_EQ(batch_norm(zeros({3, 0})).mean.shape(), (Shape{0}));
  EXPECT_EQ(batch_norm_infer(zeros({0, 2, 3}), zeros({2}), zeros({2})).shape(), (Shape{0, 2, 3}));
}

TEST(Normalisation, RefusesWhatHasNoStatistics) {
  EXPECT_THROW(batch_norm(zeros({0, 3})), Error);
  EXPECT_THROW(batch_norm(zeros({4})), Error);
  EXPECT_THROW(layer_norm(zeros({3, 0})), Error);
  EXPECT_THROW(layer_norm(zeros({3}), {}, {}, {.dims = 2}), Error);
  EXPECT_THROW(group_norm(zeros({2, 5, 3}), {}, {}, {.groups = 2}), Error);
  EXPECT_THROW(group_norm(zeros({2, 4, 3}), {}, {}, {.groups = 0}), Error);
  EXPECT_THROW(instance_norm(zeros({2, 4, 3}), zeros({3})), Error);
  EXPECT_THROW(batch_norm(zeros({2, 3}), {}, zeros({3})), Error);
  EXPECT_THROW(rms_norm(zeros({2, 3}), {}, {.eps = -1}), Error);
}

TEST(BatchNorm, OfHalvesWithGlobalStatisticsDividesBeforeItRounds) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    std::vector<double> values(100000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 0 : 4;
    const Tensor x = from_doubles(values, {100000, 1}, dtype);
    const BatchNormResult r = batch_norm(x, {}, {}, {.global_statistics = true});
    for (const Tensor& t : {r.y, r.mean, r.var}) EXPECT_EQ(t.dtype(), dtype);
    EXPECT_NEAR(r.mean.to_vector()[0], 2, 0.02);
    EXPECT_NEAR(r.var.to_vector()[0], 4, 0.04);
    EXPECT_NEAR(r.y.to_vector()[1], 1, 0.01);
  }
}

}  // namespace
}  // namespace starling
