#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/margin_attrs.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor cosine_embedding(const Tensor& a, const Tensor& b, const Tensor& labels, double margin,
                        const LossOptions& options) {
  return op::reduce_loss(apply1(named_op<"cosine_embedding_loss">(), {a, b, labels}, op::CosineAttrs{margin}), options,
                         "cosine_embedding");
}

Tensor triplet(const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin, double eps,
               const LossOptions& options) {
  return op::reduce_loss(
      apply1(named_op<"triplet_margin_loss">(), {anchor, positive, negative}, op::TripletAttrs{margin, eps}), options,
      "triplet");
}

namespace {

Tensor column(const Tensor& x) { return reshape(x, {x.shape()[0], 1}); }
Tensor row_sum(const Tensor& x) { return sum(x, {.axes = {1}}); }

Types infer_cosine(const InferCall& call) {
  rules::expect_float(call);
  rules::expect_rank(call, 0, 2);
  check(std::isfinite(call.attrs.as<op::CosineAttrs>().margin), "[cosine_embedding_loss] expected a finite margin");
  const TensorType labels{DType::i64, {call.in[0].shape[0]}};
  check(call.in[1] == call.in[0] && call.in[2] == labels,
        "[cosine_embedding_loss] expected a and b alike and labels {}, got {}, {} and {}", to_string(labels),
        to_string(call.in[0]), to_string(call.in[1]), to_string(call.in[2]));
  return {TensorType{call.in[0].dtype, labels.shape}};
}

// d cos / da = b / r - cos · a / |a|² with r = |a| |b|; the label decides the sign.
TensorList grad_cosine(const GradCall& c) {
  const Tensor &a = c.in[0], &b = c.in[1];
  const DType dtype = a.dtype();
  const Tensor aa = add(row_sum(mul(a, a)), op::kCosineEps), bb = add(row_sum(mul(b, b)), op::kCosineEps);
  const Tensor r = sqrt(mul(aa, bb)), cosine = div(row_sum(mul(a, b)), r);
  const Tensor beyond = cast(greater(cosine, scalar(c.attrs.as<op::CosineAttrs>().margin, dtype)), dtype);
  const Tensor alike = greater(c.in[2], full({}, 0.0, DType::i64));
  const Tensor g = mul(c.grads[0], where(alike, scalar(-1, dtype), beyond));
  const auto side = [&](const Tensor& x, const Tensor& xx, const Tensor& other) {
    return sub(mul(column(div(g, r)), other), mul(column(div(mul(g, cosine), xx)), x));
  };
  return {c.needs(0) ? side(a, aa, b) : Tensor(), c.needs(1) ? side(b, bb, a) : Tensor(), Tensor()};
}

Types infer_triplet(const InferCall& call) {
  rules::expect_float(call);
  rules::expect_rank(call, 0, 2);
  const auto& at = call.attrs.as<op::TripletAttrs>();
  check(std::isfinite(at.margin) && at.eps >= 0 && at.eps <= 1,
        "[triplet_margin_loss] expected a finite margin and an eps in [0, 1], got {} and {}", at.margin, at.eps);
  check(call.in[1] == call.in[0] && call.in[2] == call.in[0],
        "[triplet_margin_loss] expected operands alike, got {}, {} and {}", to_string(call.in[0]),
        to_string(call.in[1]), to_string(call.in[2]));
  return {TensorType{call.in[0].dtype, {call.in[0].shape[0]}}};
}

TensorList grad_triplet(const GradCall& c) {
  const auto& at = c.attrs.as<op::TripletAttrs>();
  const DType dtype = c.in[0].dtype();
  const Tensor near = add(sub(c.in[0], c.in[1]), at.eps), far = add(sub(c.in[0], c.in[2]), at.eps);
  const Tensor zero = scalar(0, dtype), one = scalar(1, dtype);
  const Tensor nn = row_sum(mul(near, near)), ff = row_sum(mul(far, far));
  const Tensor active = cast(greater(add(sub(sqrt(nn), sqrt(ff)), at.margin), zero), dtype);
  const Tensor g = mul(c.grads[0], active);
  // A distance of 0 has no direction: its gradient is 0, and so are higher ones.
  const auto along = [&](const Tensor& apart, const Tensor& squares) {
    const Tensor length = sqrt(where(equal(squares, zero), one, squares));
    return mul(column(div(g, length)), apart);
  };
  const Tensor to_near = along(near, nn), to_far = along(far, ff);
  return {c.needs(0) ? sub(to_near, to_far) : Tensor(), c.needs(1) ? neg(to_near) : Tensor(),
          c.needs(2) ? to_far : Tensor()};
}

std::vector<OpCase> row_cases(bool labelled, std::vector<Attrs> attrs) {
  std::vector<OpCase> cases;
  for (const auto& [n, d] :
       {Pair{4, 3}, Pair{1, 5}, Pair{9, 17}, Pair{0, 4}, Pair{7, 2}, Pair{3, 40}, Pair{12, 6}, Pair{2, 1}}) {
    const CaseInput x{.shape = {n, d}}, labels{.shape = {n}, .low = -1, .high = 1.99, .dtype = DType::i64};
    cases.push_back({{x, x, labelled ? labels : x}, attrs[cases.size() % attrs.size()]});
  }
  return cases;
}

ShardRule shard_rows(const ShardCall& call) { return rules::shard_batch(call, 0b111); }

}  // namespace

void register_ops_margin_loss(OpRegistry& ops) {
  ops.add({.name = "cosine_embedding_loss",
           .doc = "Of rows: 1 - cos(a, b) where label > 0, else max(0, cos(a, b) - margin).",
           .inputs = {"a", "b", "labels"},
           .outputs = {"loss"},
           .attrs = &attr_type<op::CosineAttrs>(),
           .infer = infer_cosine,
           .gradient = grad_cosine,
           .shard = shard_rows,
           .cases =
               [] {
                 return row_cases(true, {op::CosineAttrs{}, op::CosineAttrs{-0.3}});
               },
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "triplet_margin_loss",
           .doc = "Of rows: max(0, |anchor - positive| - |anchor - negative| + margin).",
           .inputs = {"anchor", "positive", "negative"},
           .outputs = {"loss"},
           .attrs = &attr_type<op::TripletAttrs>(),
           .infer = infer_triplet,
           .gradient = grad_triplet,
           .shard = shard_rows,
           .cases =
               [] {
                 return row_cases(false, {op::TripletAttrs{}, op::TripletAttrs{2, 1e-3}});
               },
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
