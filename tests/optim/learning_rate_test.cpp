#include <gtest/gtest.h>

#include "starling/ops/api/creation.h"
#include "starling/optim/adam.h"
#include "starling/optim/sgd.h"
#include "starling/runtime/compile.h"

namespace starling::optim {
namespace {

Tensor parameter(const char* name, DType dtype) {
  Tensor w = full({3}, 1, dtype);
  w.set_requires_grad();
  w.set_name(name);
  return w;
}

void expect_all(const Tensor& w, double value) {
  for (const double v : w.to_vector()) EXPECT_EQ(v, value);
}

// 0.1 of f32 is 0.10000000149.
TEST(LearningRate, OfF64WeightsIsNotRounded) {
  for (const bool compiled : {false, true}) {
    const Tensor w = parameter("w", DType::f64);
    Sgd sgd(std::vector<Tensor>{w}, {.lr = 0.1, .momentum = 0.9});
    EXPECT_EQ(sgd.lr(), 0.1);
    const auto body = [&] {
      w.set_grad(full({3}, 1, DType::f64));
      sgd.step();
    };
    auto program = compile(body, {.threads = 1});
    compiled ? program() : body();
    expect_all(w, 1 - 0.1);
    sgd.set_lr(0.7);
    EXPECT_EQ(sgd.lr(), 0.7);
    compiled ? program() : body();
    expect_all(w, 1 - 0.1 - 0.7 * 1.9);
  }
}

TEST(LearningRate, OfEveryGroupHasItsDtype) {
  const Tensor narrow = parameter("narrow", DType::f32), wide = parameter("wide", DType::f64);
  Sgd sgd(std::vector<ParameterGroup>{{.parameters = {narrow}}, {.parameters = {wide}, .lr_scale = 2}}, {.lr = 0.1});
  narrow.set_grad(full({3}, 1, DType::f32));
  wide.set_grad(full({3}, 1, DType::f64));
  sgd.step();
  expect_all(narrow, static_cast<double>(1.0f - 0.1f));
  expect_all(wide, 1 - 0.2);
}

TEST(LearningRate, OfF64WeightsIsNotRoundedByOtherRules) {
  const Tensor w = parameter("w", DType::f64);
  AdamW adam(std::vector<Tensor>{w}, {.lr = 0.1, .eps = 0, .weight_decay = 0});
  w.set_grad(full({3}, 2, DType::f64));
  adam.step();
  for (const double v : w.to_vector()) EXPECT_NEAR(v, 1 - 0.1, 1e-15);  // the first step of Adam goes by its rate
}

}  // namespace
}  // namespace starling::optim
