#include <gtest/gtest.h>

#include <functional>

#include "runtime/step_testing.h"
#include "starling/dist/strategy/data_parallel.h"
#include "starling/ops/api/einsum.h"
#include "starling/ops/api/loss.h"

namespace starling::dist {
namespace {

using testing::relative_l2;

// A loss of x · w, from the product, the batch x [7, 4] and labels [7] of which some are 2.
using Loss = std::function<Tensor(const Tensor& product, const Tensor& x, const Tensor& labels)>;

struct LossCase {
  const char* name;
  Loss loss;
};
std::ostream& operator<<(std::ostream& out, const LossCase& c) { return out << c.name; }

class LossOnRanks : public ::testing::TestWithParam<LossCase> {};

// Loss and gradient of w, with seven rows that two or three ranks cannot split evenly.
TEST_P(LossOnRanks, EqualsTheLossOfOneProcess) {
  manual_seed(3);
  Tensor w = cast(normal({4, 3}), DType::f64);
  w.set_name("w").set_requires_grad();
  const Tensor x = cast(normal({7, 4}), DType::f64);
  const std::int64_t classes[] = {2, 2, 2, 0, 1, 2, 1};
  const Tensor labels = from_host<std::int64_t>(classes, {7});
  const auto step = [&](const Tensor& in, const Tensor& y) {
    const Tensor loss = GetParam().loss(matmul(in, w), in, y);
    TensorList all = gradients({&loss, 1}, {&w, 1});
    all.push_back(loss.detach());
    return all;
  };
  auto single = compile(step);
  const TensorList want = single(x, labels);
  for (const int workers : {2, 3, 9}) {  // of nine ranks two have no rows
    auto parallel = compile(step, {.strategy = data_parallel({.workers = workers})});
    const TensorList got = parallel(x, labels);
    ASSERT_EQ(got.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_LE(relative_l2(got[i], want[i]), 1e-12) << workers << " ranks";
  }
}

Tensor class_weights() { return from_doubles(std::vector<double>{0.5, 1, 2}, {3}, DType::f64); }

const LossCase kCases[] = {
    {"cross_entropy", [](auto& p, auto&, auto& y) { return cross_entropy(p, y); }},
    {"ignored", [](auto& p, auto&, auto& y) { return cross_entropy(p, y, {.ignore_index = 2}); }},
    {"weighted", [](auto& p, auto&, auto& y) { return cross_entropy(p, y, {.weight = class_weights()}); }},
    {"smoothed",
     [](auto& p, auto&, auto& y) {
       return cross_entropy(p, y, {.weight = class_weights(), .ignore_index = 0, .label_smoothing = 0.1});
     }},
    {"nll", [](auto& p, auto&, auto& y) { return nll(log_softmax(p), y, {.weight = class_weights()}); }},
    {"probabilities",
     [](auto& p, auto& x, auto&) {
       return cross_entropy(p, softmax(matmul(x, full({4, 3}, 0.3, DType::f64))));
     }},
    {"l1", [](auto& p, auto& x, auto&) { return l1(p, slice(x, {.axis = 1, .begin = 0, .end = 3})); }},
    {"mse", [](auto& p, auto& x, auto&) { return mse(p, slice(x, {.axis = 1, .begin = 0, .end = 3})); }},
    {"bce_with_logits",
     [](auto& p, auto& x, auto& y) {
       return bce_with_logits(p, sigmoid(slice(x, {.axis = 1, .begin = 0, .end = 3})), class_weights(),
                              {.weight = reshape(cast(y, DType::f64), {7, 1})});
     }},
    {"cosine",
     [](auto& p, auto& x, auto& y) {
       return cosine_embedding(p, slice(x, {.axis = 1, .begin = 0, .end = 3}), sub(y, scalar(1, DType::i64)), -0.5);
     }},
    {"triplet",
     [](auto& p, auto& x, auto&) {
       return triplet(p, slice(x, {.axis = 1, .begin = 0, .end = 3}), slice(x, {.axis = 1, .begin = 1, .end = 4}), 3);
     }},
    {"einsum",
     [](auto& p, auto& x, auto&) {
       return sum(einsum("bi,bj->ij", {p, x}));
     }},
};
INSTANTIATE_TEST_SUITE_P(Losses, LossOnRanks, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace starling::dist
