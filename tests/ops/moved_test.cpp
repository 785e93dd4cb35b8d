// Ops that only move elements: bit for bit, for every dtype, with any number of threads.
#include <gtest/gtest.h>

#include <cstring>

#include "ops/op_checks.h"
#include "starling/base/parallel.h"
#include "starling/kernels/eager.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/pad.h"
#include "starling/ops/api/rearrange.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/triangular.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/tensor/bytes.h"

namespace starling::testing {
namespace {

constexpr const char* kMoving[] = {
    "concat",    "stack",  "slice", "slice_backward", "split",         "diagonal", "diag_embed",   "pad",
    "tile",      "repeat", "flip",  "roll",           "gather",        "scatter",  "index_select", "take",
    "index_get", "tril",   "triu",  "masked_scatter", "masked_select", "reshape",  "transpose",    "meshgrid"};

// Patterns of all kinds, among them NaNs that arithmetic would change.
Tensor random_bits(const Shape& shape, DType dtype, std::mt19937& random) {
  const Tensor x = empty(shape, dtype);
  auto* bytes = static_cast<std::uint8_t*>(x.raw());
  for (std::size_t i = 0; i < bytes_of(x); ++i) {
    bytes[i] = static_cast<std::uint8_t>(dtype == DType::boolean ? random() % 2 : random());
  }
  return x;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = kernels::densify(a), y = kernels::densify(b);
  return x.type() == y.type() && std::memcmp(x.raw(), y.raw(), bytes_of(x)) == 0;
}

TEST(MovedElements, AreTheSameBitsForEveryDtype) {
  std::mt19937 random(5);
  for (const char* name : kMoving) {
    const OpDef& op = find_op(name);
    for (const auto& sample : op.cases()) {
      for (int d = 0; d < kDTypeCount; ++d) {
        const auto dtype = static_cast<DType>(d);
        Drawn drawn = draw(sample, DType::f32);
        for (std::size_t i = 0; i < drawn.in.size(); ++i) {
          if (sample.in[i].dtype == DType::f64) drawn.in[i] = random_bits(sample.in[i].shape, dtype, random);
        }
        Attrs attrs = sample.attrs;
        if (op.name == "pad") attrs.set("value", "1");
        const TensorList got = apply(op, drawn.span(), attrs);
        const kernels::ReferenceScope reference;
        const TensorList want = apply(op, drawn.span(), attrs);
        for (std::size_t i = 0; i < got.size(); ++i)
          EXPECT_TRUE(same_bits(got[i], want[i])) << describe(op, sample) << " of " << starling::name(dtype);
      }
    }
  }
}

// Large enough for several threads.
TEST(MovedElements, AreTheSameWithSeveralThreads) {
  std::mt19937 random(6);
  const Tensor x = random_bits({300, 700}, DType::f32, random), row = random_bits({200000}, DType::f32, random);
  const Tensor both[] = {x, x};
  const auto run = [&] {
    return std::vector<Tensor>{
        concat(both, 1),
        stack(both, 1),
        pad(x, {.before = {3, 5}, .after = {1, 2}, .value = 2}),
        pad(x, {.before = {3, 5}, .after = {1, 2}, .mode = Symbol("reflect")}),
        tile(x, {2, 3}),
        repeat(x, 3, 0),
        repeat(row, 2, 0),
        flip(x, {0, 1}),
        flip(row, {0}),
        roll(x, {7, -3}, {0, 1}),
        tril(x, 5),
        triu(x, -9),
    };
  };
  const auto want = [&] {
    const kernels::ReferenceScope reference;
    return run();
  }();
  for (int threads : {1, 3}) {
    const ThreadScope scope(threads);
    const auto got = run();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i << ", " << threads;
  }
}

TEST(MovedElements, FitTilesOfMoreLoopsThanACopyHas) {
  std::mt19937 random(7);
  const Tensor x = random_bits({2, 3, 2, 2, 3, 2}, DType::i16, random);
  const Shape reps{2, 3, 1, 2, 2, 3};
  const Tensor got = tile(x, reps);
  const kernels::ReferenceScope reference;
  EXPECT_TRUE(same_bits(got, tile(x, reps)));
}

TEST(Pad, RefusesWhatCannotBeMade) {
  const Tensor x = zeros({3, 2});
  EXPECT_THROW(pad(x, {.before = {1}}), Error);
  EXPECT_THROW(pad(x, {.before = {-1, 0}}), Error);
  EXPECT_THROW(pad(x, {.before = {3, 0}, .mode = Symbol("reflect")}), Error);
  EXPECT_THROW(pad(zeros({0}), {.before = {1}, .mode = Symbol("edge")}), Error);
  EXPECT_THROW(pad(x, {.mode = Symbol("wrap")}), Error);
  EXPECT_THROW(pad(zeros({3}, DType::i64), {.before = {1}, .value = 0.5}), Error);
}

}  // namespace
}  // namespace starling::testing
