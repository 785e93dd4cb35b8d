#include "starling/base/error.h"
#include "starling/ops/api/embedding.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/embedding.h"
#include "starling/ops/def/bag_operands.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor embedding_bag(const Tensor& indices, const Tensor& weight, const EmbeddingBagOptions& o) {
  check(weight.rank() > 0, "[embedding_bag] expected a weight of rows, got {}", to_string(weight.type()));
  const auto rows = weight.shape()[0];
  const auto given = o.padding_idx.value_or(0);
  check(!o.padding_idx || (given >= -rows && given < rows), "[embedding_bag] expected padding_idx in [{}, {}), got {}",
        -rows, rows, given);
  const std::int64_t padding = !o.padding_idx ? -1 : given < 0 ? given + rows : given;
  check(!o.per_sample_weights.defined() || o.mode == BagMode::sum,
        "[embedding_bag] expected per-sample weights with sums only");
  TensorList in{weight, indices};
  if (o.offsets.defined()) in.push_back(o.offsets);
  if (o.per_sample_weights.defined()) in.push_back(o.per_sample_weights);
  if (o.mode == BagMode::max) return apply1(named_op<"embedding_bag_max">(), in, op::EmbeddingAttrs{padding, o.sparse});
  return apply1(named_op<"embedding_bag">(), in, op::EmbeddingBagAttrs{o.mode == BagMode::mean, padding, o.sparse});
}

namespace {

void expect_padding(const InferCall& call, std::int64_t padding) {
  const auto rows = call.in[0].shape[0];
  check(padding >= -1 && padding < std::max<std::int64_t>(rows, 1),
        "[{}] expected padding to be -1 or one of {} rows, got {}", call.op.name, rows, padding);
}

Types infer_bag(const InferCall& call) {
  bags::expect_rows(call);
  const auto& a = call.attrs.as<op::EmbeddingBagAttrs>();
  const op::BagOperands operands = bag_operands(call.op, call.in);
  expect_padding(call, a.padding);
  bags::expect_no_scaled_mean(call, operands, a.mean);
  return {TensorType{call.in[0].dtype, bags::with_rows(operands.bags, call.in[0].shape)}};
}

Types infer_bag_max(const InferCall& call) {
  bags::expect_rows(call);
  const op::BagOperands operands = bag_operands(call.op, call.in, false);
  expect_padding(call, call.attrs.as<op::EmbeddingAttrs>().padding);
  const Shape out = bags::with_rows(operands.bags, call.in[0].shape);
  return {TensorType{call.in[0].dtype, out}, TensorType{DType::i64, out}};
}

Tensor scattered(const Tensor& values, const Tensor& indices, const Shape& weight, bool sparse) {
  const Tensor rows = reshape(indices, {indices.numel()});
  return sparse ? row_sparse(rows, values, weight) : op::embedding_backward(values, rows, {weight[0], -1});
}

TensorList grad_bag(const GradCall& c) {
  const auto& a = c.attrs.as<op::EmbeddingBagAttrs>();
  const op::BagAttrs spread{a.mean, a.padding};
  TensorList out(c.in.size());
  const int scale = bags::scale_operand(c);
  if (c.needs(0)) {
    out[0] = scattered(apply1(named_op<"bag_spread">(), bags::operands(c.grads[0], c, true), spread), c.in[1],
                       c.in[0].shape(), a.sparse);
  }
  if (scale >= 0 && c.needs(scale)) {
    const Tensor rows = embedding(reshape(c.in[1], {c.in[1].numel()}), c.in[0]);
    out[static_cast<std::size_t>(scale)] = bags::row_dots(
        apply1(named_op<"bag_spread">(), bags::operands(c.grads[0], c, false), spread), rows, c.in[1].shape());
  }
  return out;
}

TensorList grad_bag_max(const GradCall& c) {
  TensorList out(c.in.size());
  if (!c.grads[0].defined()) return out;
  const Tensor values = apply1(named_op<"bag_place">(), {c.grads[0], c.out[1]}, op::BagPlaceAttrs{c.in[1].numel()});
  out[0] = scattered(values, c.in[1], c.in[0].shape(), c.attrs.as<op::EmbeddingAttrs>().sparse);
  return out;
}

// Rows of 2-D indices are whole bags and may be split; runs cut by offsets may not.
ShardRule shard_bag(const ShardCall& call) {
  if (call.in[1].shape.rank() != 2 || !call.layouts[1].is_split(0)) return rules::shard_replicated(call);
  ShardRule rule = rules::shard_replicated(call);
  for (std::size_t i = 1; i < rule.in.size(); ++i) rule.in[i] = Layout::split(0);
  for (auto& out : rule.out) out = Layout::split(0);
  return rule;
}

std::vector<OpCase> bag_cases() {
  using A = op::EmbeddingBagAttrs;
  return {bags::sample({5, 3}, {2, 4}, 5, A{}),
          bags::sample({5, 3}, {3, 2}, 5, A{true}),
          bags::sample({4, 20}, {9}, 4, A{}, 3),
          bags::sample({4, 20}, {9}, 4, A{true, 2}, 3),
          bags::sample({6, 17}, {2, 3}, 6, A{}, 0, true),
          bags::sample({6, 5}, {7}, 6, A{false, 1, true}, 4, true),
          bags::sample({3}, {2, 3}, 3, A{}),
          bags::sample({3, 2}, {0, 3}, 3, A{}),
          bags::sample({3, 2}, {2, 0}, 3, A{true}),
          bags::sample({3, 2, 2}, {5}, 3, A{true, -1, true}, 2),
          bags::sample({3, 4}, {0}, 3, A{}, 2),
          bags::sample({3, 0}, {2, 2}, 3, A{})};
}

std::vector<OpCase> max_cases() {
  using A = op::EmbeddingAttrs;
  const auto one = [](const Shape& x, const Shape& indices, const A& a, std::int64_t bags = 0) {
    return bags::sample(x, indices, x[0], a, bags, false, true);
  };
  return {one({5, 3}, {2, 4}, A{}),        one({4, 20}, {9}, A{2}, 3),  one({6, 17}, {2, 3}, A{-1, true}),
          one({6, 5}, {7}, A{1, true}, 4), one({3}, {2, 3}, A{}),       one({3, 2}, {0, 3}, A{}),
          one({3, 2}, {2, 0}, A{}),        one({3, 2, 2}, {5}, A{}, 2), one({3, 4}, {0}, A{}, 2)};
}

}  // namespace

void register_ops_embedding_bag(OpRegistry& ops) {
  ops.add({.name = "embedding_bag",
           .doc = "Sums or means of the rows of a table in bags of indices.",
           .inputs = {"weight", "indices", "offsets?", "scale?"},
           .attrs = &attr_type<op::EmbeddingBagAttrs>(),
           .infer = infer_bag,
           .gradient = grad_bag,
           .shard = shard_bag,
           .cases = bag_cases,
           .saves = kSavesInputs,
           .cost = costs::gathers(0, 1),
           .precision = Width::wide});
  ops.add({.name = "embedding_bag_max",
           .doc = "The largest elements of the rows of a table in bags of indices, and which entries they are of.",
           .inputs = {"weight", "indices", "offsets?"},
           .outputs = {"y", "chosen"},
           .attrs = &attr_type<op::EmbeddingAttrs>(),
           .infer = infer_bag_max,
           .gradient = grad_bag_max,
           .cases = max_cases,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
