#include "starling/nn/containers.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/shape_ops.h"

namespace starling::nn {
namespace {

void expect_some(const char* who, std::span<const Tensor> xs) {
  check(!xs.empty(), "[{}] expected at least one input, got none", who);
}

Tensor folded(std::span<const Tensor> xs, Tensor (*op)(const Tensor&, const Tensor&)) {
  Tensor y = xs[0];
  for (const auto& x : xs.subspan(1)) y = op(y, x);
  return y;
}

Tensor joined(std::span<const Tensor> xs, Join join, std::int64_t axis) {
  switch (join) {
    case Join::concat: return xs.size() == 1 ? xs[0] : concat(xs, axis);
    case Join::sum: return folded(xs, add);
    case Join::product: return folded(xs, mul);
  }
  return {};
}

}  // namespace

TensorList Concat::forward_list(std::span<const Tensor> xs) {
  expect_some("Concat", xs);
  return {joined(xs, Join::concat, axis_)};
}
TensorList Add::forward_list(std::span<const Tensor> xs) {
  expect_some("Add", xs);
  return {joined(xs, Join::sum, 0)};
}
TensorList Multiply::forward_list(std::span<const Tensor> xs) {
  expect_some("Multiply", xs);
  return {joined(xs, Join::product, 0)};
}
Tensor Subtract::forward(const Tensor& x) { return Subtract::forward_list({&x, 1})[0]; }
TensorList Subtract::forward_list(std::span<const Tensor> xs) {
  check(xs.size() == 2, "[Subtract] expected two inputs, got {}", xs.size());
  return {sub(xs[0], xs[1])};
}

Tensor Parallel::forward(const Tensor& x) {
  check(!branches_.empty(), "[Parallel] expected at least one branch, got none");
  std::vector<Tensor> made;
  made.reserve(branches_.size());
  for (const auto& branch : branches_) made.push_back((*branch)(x));
  return joined(made, join_, axis_);
}

Tensor ModuleList::forward(const Tensor&) {
  fail("[ModuleList] expected its {} modules to be called one by one, got a call of the list", modules_.size());
}

Repeat::Repeat(std::int64_t times, const std::function<std::shared_ptr<Module>(std::int64_t)>& make) {
  check(times > 0, "[Repeat] expected at least one time, got {}", times);
  for (std::int64_t i = 0; i < times; ++i) add_shared(std::to_string(i + 1), make(i));
}

Recur::Recur(std::int64_t times, std::shared_ptr<Module> body)
    : times_(times), body_(add_module("body", std::move(body))) {
  check(times > 0, "[Recur] expected at least one time, got {}", times);
}

Tensor Recur::forward(const Tensor& x) {
  Tensor y = x;
  for (std::int64_t i = 0; i < times_; ++i) y = (*body_)(y);
  return y;
}

}  // namespace starling::nn
