// Values saved for a gradient must not be overwritten before the gradient has used them.
#include <gtest/gtest.h>

#include "autograd/autograd_testing.h"
#include "starling/ops/def/attrs/row_sparse.h"
#include "starling/ops/def/attrs/state.h"

namespace starling {
namespace {

using testing::leaf;
using testing::named;
using testing::row;

// backward() of w · w · x after `write` must be refused, naming op, variable, shape and versions.
void expect_refused(const std::function<void(const Tensor& w)>& write, const char* what) {
  Tensor w = named(leaf(row({1, 2})), "layer.weight");
  const Tensor y = sum(mul(mul(w, w), row({3, 4})));
  no_grad([&] { write(w); });
  try {
    y.backward();
    FAIL() << what << " was not noticed";
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* part : {"[mul]", "'layer.weight'", "f64[2]", "was 0"})
      EXPECT_NE(text.find(part), std::string::npos) << what << ": " << text;
  }
}

TEST(Guards, NoticeEveryPublicWriter) {
  expect_refused([](const Tensor& w) { assign(w, row({5, 5})); }, "assign");
  expect_refused([](const Tensor& w) { copy_into(w, row({5, 5})); }, "copy_into");
  expect_refused([](const Tensor& w) { copy_into(w.detach(), row({5, 5})); }, "copy_into of a detached handle");
  expect_refused([](const Tensor& w) { op::sgd_update(w, row({0, 0}), row({1, 1}), scalar(0.1), {}); }, "sgd_update");
  expect_refused(
      [](const Tensor& w) {
        const std::int64_t first = 0;
        op::sgd_update_rows(w, row({0, 0}), from_host<std::int64_t>({&first, 1}, {1}), row({1}), scalar(0.1), {});
      },
      "sgd_update_rows");
  expect_refused(
      [](const Tensor& w) {
        auto f = compile([&](const Tensor& x) {
          assign(w, add(w, x));
          return mul(x, 1.0);
        });
        f(row({1, 1}));
      },
      "a compiled program");
}

TEST(Guards, NoticeAnOptimizerStepBetweenForwardAndBackward) {
  Tensor w = named(leaf(row({1, 2})), "w");
  optim::Sgd opt({w}, {.lr = 0.1});
  const Tensor first = sum(mul(w, w)), second = sum(mul(mul(w, w), w));
  first.backward();
  opt.step();
  EXPECT_THROW(second.backward(), Error);
}

TEST(Guards, NoticeAModuleThatWasConverted) {
  nn::Sequential net;
  net.add("fc", nn::Linear({.in = 2, .out = 2}));
  const Tensor y = sum(net(zeros({3, 2}).set_requires_grad()));
  net.to(DType::f64);
  EXPECT_THROW(y.backward(), Error);
}

TEST(Guards, AllowWritesToValuesThatNoGradientNeeds) {
  Tensor w = named(leaf(row({1, 2})), "w");
  const Tensor y = sum(add(w, 1.0));  // the gradient of an addition reads nothing
  no_grad([&] { assign(w, row({5, 5})); });
  y.backward();
  EXPECT_EQ(w.grad().to_vector(), (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace starling
