#include "starling/ops/api/embedding.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/embedding.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"
#include "starling/ops/def/sharding/factors.h"

namespace starling {
namespace {

std::int64_t padding_of(std::optional<std::int64_t> given, const Tensor& weight) {
  if (!given) return -1;
  check(weight.rank() > 0, "[embedding] expected a weight of rows, got {}", to_string(weight.type()));
  const auto rows = weight.shape()[0];
  check(*given >= -rows && *given < rows, "[embedding] expected padding_idx in [{}, {}), got {}", -rows, rows, *given);
  return *given < 0 ? *given + rows : *given;
}

}  // namespace

Tensor embedding(const Tensor& indices, const Tensor& weight, const EmbeddingOptions& options) {
  return apply1(named_op<"embedding">(), {indices, weight},
                op::EmbeddingAttrs{padding_of(options.padding_idx, weight), options.sparse});
}

Tensor op::embedding_backward(const Tensor& dy, const Tensor& indices, const op::EmbeddingBackwardAttrs& attrs) {
  return apply1(named_op<"embedding_backward">(), {dy, indices}, attrs);
}

namespace {

void expect_indices(const InferCall& call, std::size_t i) {
  check(call.in[i].dtype == DType::i64, "[{}] expected indices i64, got {}", call.op.name, to_string(call.in[i]));
}

Types infer_embedding(const InferCall& call) {
  expect_indices(call, 0);
  rules::expect_float(call, 1);
  const Shape &indices = call.in[0].shape, &weight = call.in[1].shape;
  check(weight.rank() > 0 && indices.rank() + weight.rank() - 1 <= kMaxRank,
        "[embedding] expected a weight of rows, and at most {} dimensions in all, got {} and {}", kMaxRank,
        to_string(call.in[0]), to_string(call.in[1]));
  const auto padding = call.attrs.as<op::EmbeddingAttrs>().padding;
  check(padding >= -1 && padding < std::max<std::int64_t>(weight[0], 1),
        "[embedding] expected padding to be -1 or a row of {}, got {}", to_string(weight), padding);
  Shape out = indices;
  for (int i = 1; i < weight.rank(); ++i) out.push_back(weight[i]);
  return {TensorType{call.in[1].dtype, out}};
}

Types infer_embedding_backward(const InferCall& call) {
  rules::expect_float(call);
  expect_indices(call, 1);
  const auto& a = call.attrs.as<op::EmbeddingBackwardAttrs>();
  const Shape &dy = call.in[0].shape, &indices = call.in[1].shape;
  bool fits = dy.rank() >= indices.rank() && dy.rank() - indices.rank() < kMaxRank;
  for (int i = 0; fits && i < indices.rank(); ++i) fits = dy[i] == indices[i];
  check(fits, "[embedding_backward] expected dy to begin with the sizes of the indices {}, got {}", to_string(indices),
        to_string(dy));
  check(a.rows >= 0 && a.padding >= -1 && a.padding < std::max<std::int64_t>(a.rows, 1),
        "[embedding_backward] expected rows of at least 0 and padding -1 or one of them, got {} and {}", a.rows,
        a.padding);
  Shape out{a.rows};
  for (int i = indices.rank(); i < dy.rank(); ++i) out.push_back(dy[i]);
  return {TensorType{call.in[0].dtype, out}};
}

// Gradient of an embedding's weight: dense, or row-sparse with zeros in padding entries.
Tensor weight_gradient(const Tensor& dy, const Tensor& indices, const Shape& weight, std::int64_t padding,
                       bool sparse) {
  if (!sparse) return op::embedding_backward(dy, indices, {weight[0], padding});
  Shape values{indices.numel()};
  for (int i = 1; i < weight.rank(); ++i) values.push_back(weight[i]);
  Tensor kept = reshape(dy, values);
  const Tensor rows = reshape(indices, {indices.numel()});
  if (padding >= 0) {
    Shape column = Shape::filled(values.rank(), 1);
    column[0] = values[0];
    const Tensor counts = not_equal(rows, full({}, static_cast<double>(padding), DType::i64));
    kept = mul(kept, reshape(cast(counts, dy.dtype()), column));
  }
  return row_sparse(rows, kept, weight);
}

TensorList grad_embedding(const GradCall& c) {
  const auto& a = c.attrs.as<op::EmbeddingAttrs>();
  return {Tensor(), weight_gradient(c.grads[0], c.in[0], c.in[1].shape(), a.padding, a.sparse)};
}

TensorList grad_embedding_backward(const GradCall& c) {
  const auto padding = c.attrs.as<op::EmbeddingBackwardAttrs>().padding;
  const Tensor& indices = c.in[1];
  Tensor g = embedding(indices, c.grads[0]);
  if (padding >= 0) {
    Shape column = indices.shape();
    while (column.rank() < g.rank()) column.push_back(1);
    const Tensor counts = not_equal(indices, full({}, static_cast<double>(padding), DType::i64));
    g = mul(g, reshape(cast(counts, g.dtype()), column));
  }
  return {g, Tensor()};
}

// Dimensions of the indices, and the columns of the table. Rows of the table are split by ranges of indices, which the
// partition pass makes (graph/passes/partition/ranges.cpp).
ShardRule shard_embedding(const ShardCall& call) {
  const int indices = call.in[0].shape.rank(), table = call.in[1].shape.rank();
  Factors factors{.linear = 0b10};
  for (std::int8_t d = 0; d < indices; ++d) factors.all.push_back({{d, Factor::kNone}, {d}});
  for (std::int8_t d = 1; d < table; ++d)
    factors.all.push_back({{Factor::kNone, d}, {static_cast<std::int8_t>(indices + d - 1)}});
  return rules::shard_factors(call, factors);
}

// Entries are summed by index: a split of them gives terms of the table. Columns are kept.
ShardRule shard_embedding_backward(const ShardCall& call) {
  const int dy = call.in[0].shape.rank(), indices = call.in[1].shape.rank();
  Factors factors{.linear = 0b01};
  for (std::int8_t d = 0; d < indices; ++d) factors.all.push_back({{d, d}, {Factor::kNone}});
  for (auto d = static_cast<std::int8_t>(indices); d < dy; ++d)
    factors.all.push_back({{d, Factor::kNone}, {static_cast<std::int8_t>(d - indices + 1)}});
  return rules::shard_factors(call, factors);
}

// Sample indices avoid the padding row, whose missing gradient would fail the derivative check.
std::vector<OpCase> embedding_cases() {
  const auto one = [](const Shape& indices, const Shape& weight, op::EmbeddingAttrs a = {}) {
    return OpCase{{{.shape = indices,
                    .low = static_cast<double>(a.padding + 1),
                    .high = static_cast<double>(weight[0]),
                    .dtype = DType::i64},
                   {.shape = weight}},
                  a};
  };
  return {one({4}, {5, 3}),
          one({2, 3}, {4, 5}),
          one({}, {3, 2}),
          one({9}, {4, 20}, {1, false}),
          one({0}, {3, 2}),
          one({6}, {3}),
          one({5}, {1, 33}),
          one({3}, {4, 2, 3}, {-1, true}),
          one({7}, {3, 4}, {0, true}),
          one({2, 2, 2}, {6, 17}),
          one({4}, {3, 0})};
}

std::vector<OpCase> embedding_backward_cases() {
  const auto one = [](const Shape& dy, const Shape& indices, op::EmbeddingBackwardAttrs a) {
    return OpCase{
        {{.shape = dy}, {.shape = indices, .low = 0, .high = static_cast<double>(a.rows), .dtype = DType::i64}}, a};
  };
  return {one({4, 3}, {4}, {5}),    one({2, 3, 5}, {2, 3}, {4}),  one({2}, {}, {3}),      one({9, 20}, {9}, {4, 2}),
          one({0, 2}, {0}, {3}),    one({6}, {6}, {3}),           one({5, 33}, {5}, {1}), one({3, 2, 3}, {3}, {4}),
          one({7, 4}, {7}, {3, 0}), one({2, 2, 17}, {2, 2}, {6}), one({4, 0}, {4}, {3}),  one({0, 2}, {0}, {0})};
}

}  // namespace

void register_ops_embedding(OpRegistry& ops) {
  ops.add({.name = "embedding",
           .doc = "Rows of a table by index.",
           .inputs = {"indices", "weight"},
           .attrs = &attr_type<op::EmbeddingAttrs>(),
           .infer = infer_embedding,
           .gradient = grad_embedding,
           .shard = shard_embedding,
           .cases = embedding_cases,
           .saves = kSavesInputs,
           .cost = costs::gathers(1),
           .precision = Width::wide});
  ops.add({.name = "embedding_backward",
           .doc = "Rows added up by index: the gradient of an embedding's table.",
           .inputs = {"dy", "indices"},
           .attrs = &attr_type<op::EmbeddingBackwardAttrs>(),
           .infer = infer_embedding_backward,
           .gradient = grad_embedding_backward,
           .shard = shard_embedding_backward,
           .cases = embedding_backward_cases,
           .saves = kSavesInputs,
           .cost = costs::each_of_first(),
           .precision = Width::wide});
}

}  // namespace starling
