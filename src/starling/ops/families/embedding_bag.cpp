#include "starling/base/error.h"
#include "starling/ops/apply.h"
#include "starling/ops/bag_layout.h"
#include "starling/ops/binary.h"
#include "starling/ops/reduce.h"
#include "starling/ops/registry.h"
#include "starling/ops/row_sparse.h"
#include "starling/ops/rules.h"
#include "starling/ops/shape_ops.h"

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
  if (o.mode == BagMode::max) return apply1(named_op<"embedding_bag_max">(), in, EmbeddingAttrs{padding, o.sparse});
  return apply1(named_op<"embedding_bag">(), in, EmbeddingBagAttrs{o.mode == BagMode::mean, padding, o.sparse});
}

namespace {

Shape with_rows(std::int64_t rows, const Shape& like) {
  Shape shape = like;
  shape[0] = rows;
  return shape;
}

void expect_rows(const InferCall& call) {
  rules::expect_float(call);
  check(call.in[0].shape.rank() > 0, "[{}] expected rows, got {}", call.op.name, to_string(call.in[0]));
}

void expect_padding(const InferCall& call, std::int64_t padding) {
  const auto rows = call.in[0].shape[0];
  check(padding >= -1 && padding < std::max<std::int64_t>(rows, 1),
        "[{}] expected padding to be -1 or one of {} rows, got {}", call.op.name, rows, padding);
}

void expect_no_scaled_mean(const InferCall& call, const BagLayout& layout, bool mean) {
  check(!mean || layout.scale < 0, "[{}] expected per-sample weights with sums only, got a mean", call.op.name);
}

Types infer_bag(const InferCall& call) {
  expect_rows(call);
  const auto& a = call.attrs.as<EmbeddingBagAttrs>();
  const BagLayout layout = bag_layout(call.op, call.in);
  expect_padding(call, a.padding);
  expect_no_scaled_mean(call, layout, a.mean);
  return {TensorType{call.in[0].dtype, with_rows(layout.bags, call.in[0].shape)}};
}

Types infer_bag_max(const InferCall& call) {
  expect_rows(call);
  const BagLayout layout = bag_layout(call.op, call.in, false);
  expect_padding(call, call.attrs.as<EmbeddingAttrs>().padding);
  const Shape out = with_rows(layout.bags, call.in[0].shape);
  return {TensorType{call.in[0].dtype, out}, TensorType{DType::i64, out}};
}

// bag_spread takes one row a bag and gives one an entry; bag_reduce the other way.
Types infer_rows(const InferCall& call, bool spread) {
  expect_rows(call);
  const auto& a = call.attrs.as<BagAttrs>();
  const BagLayout layout = bag_layout(call.op, call.in);
  expect_no_scaled_mean(call, layout, a.mean);
  check(a.padding >= -1, "[{}] expected padding to be -1 or a row, got {}", call.op.name, a.padding);
  const auto from = spread ? layout.bags : layout.entries, to = spread ? layout.entries : layout.bags;
  check(call.in[0].shape[0] == from, "[{}] expected {} rows, got {}", call.op.name, from, to_string(call.in[0]));
  return {TensorType{call.in[0].dtype, with_rows(to, call.in[0].shape)}};
}

// The operands after x, with or without the scale.
TensorList with(const Tensor& x, const GradCall& c, bool scaled) {
  TensorList in{x};
  for (std::size_t i = 1; i < c.in.size(); ++i) {
    if (scaled || i == 1 || c.in[i].dtype() == DType::i64) in.push_back(c.in[i]);
  }
  return in;
}

int scale_operand(const GradCall& c) {
  return c.in.size() > 2 && is_float(c.in.back().dtype()) ? static_cast<int>(c.in.size()) - 1 : -1;
}

// Σ over the row of a · b, in the shape of the indices.
Tensor row_dots(const Tensor& a, const Tensor& b, const Shape& shape) {
  const Tensor product = mul(a, b);
  Shape axes;
  for (int i = 1; i < product.rank(); ++i) axes.push_back(i);
  return reshape(axes.empty() ? product : sum(product, {.axes = axes}), shape);
}

Tensor scattered(const Tensor& values, const Tensor& indices, const Shape& weight, bool sparse) {
  const Tensor rows = reshape(indices, {indices.numel()});
  return sparse ? row_sparse(rows, values, weight) : embedding_backward(values, rows, {weight[0], -1});
}

TensorList grad_bag(const GradCall& c) {
  const auto& a = c.attrs.as<EmbeddingBagAttrs>();
  const BagAttrs spread{a.mean, a.padding};
  TensorList out(c.in.size());
  const int scale = scale_operand(c);
  if (c.needs(0)) {
    out[0] = scattered(apply1(named_op<"bag_spread">(), with(c.grads[0], c, true), spread), c.in[1], c.in[0].shape(),
                       a.sparse);
  }
  if (scale >= 0 && c.needs(scale)) {
    const Tensor rows = embedding(reshape(c.in[1], {c.in[1].numel()}), c.in[0]);
    out[static_cast<std::size_t>(scale)] =
        row_dots(apply1(named_op<"bag_spread">(), with(c.grads[0], c, false), spread), rows, c.in[1].shape());
  }
  return out;
}

TensorList grad_spread(const GradCall& c) {
  TensorList out(c.in.size());
  const int scale = scale_operand(c);
  if (c.needs(0)) out[0] = apply1(named_op<"bag_reduce">(), with(c.grads[0], c, true), c.attrs);
  if (scale >= 0 && c.needs(scale)) {
    out[static_cast<std::size_t>(scale)] =
        row_dots(apply1(c.op, with(c.in[0], c, false), c.attrs), c.grads[0], c.in[1].shape());
  }
  return out;
}

TensorList grad_reduce(const GradCall& c) {
  TensorList out(c.in.size());
  const int scale = scale_operand(c);
  if (c.needs(0)) out[0] = apply1(named_op<"bag_spread">(), with(c.grads[0], c, true), c.attrs);
  if (scale >= 0 && c.needs(scale)) {
    out[static_cast<std::size_t>(scale)] =
        row_dots(apply1(named_op<"bag_spread">(), with(c.grads[0], c, false), c.attrs), c.in[0], c.in[1].shape());
  }
  return out;
}

TensorList grad_bag_max(const GradCall& c) {
  TensorList out(c.in.size());
  if (!c.grads[0].defined()) return out;
  const Tensor values = apply1(named_op<"bag_place">(), {c.grads[0], c.out[1]}, BagPlaceAttrs{c.in[1].numel()});
  out[0] = scattered(values, c.in[1], c.in[0].shape(), c.attrs.as<EmbeddingAttrs>().sparse);
  return out;
}

Types infer_place(const InferCall& call) {
  expect_rows(call);
  const auto entries = call.attrs.as<BagPlaceAttrs>().entries;
  check(call.in[1] == TensorType{DType::i64, call.in[0].shape}, "[bag_place] expected chosen {}, got {}",
        to_string(TensorType{DType::i64, call.in[0].shape}), to_string(call.in[1]));
  check(entries >= 0, "[bag_place] expected entries of at least 0, got {}", entries);
  return {TensorType{call.in[0].dtype, with_rows(entries, call.in[0].shape)}};
}

Types infer_pick(const InferCall& call) {
  expect_rows(call);
  const Shape& chosen = call.in[1].shape;
  const bool fits = call.in[1].dtype == DType::i64 && chosen.rank() == call.in[0].shape.rank() &&
                    with_rows(chosen[0], call.in[0].shape) == chosen;
  check(fits, "[bag_pick] expected chosen i64 with rows like those of {}, got {}", to_string(call.in[0]),
        to_string(call.in[1]));
  return {TensorType{call.in[0].dtype, chosen}};
}

// Rows of indices are whole bags, so they may be split; runs cut by offsets may not.
ShardRule shard_bag(const ShardCall& call) {
  if (call.in[1].shape.rank() != 2 || !call.placed[1].is_split(0)) return rules::shard_replicated(call);
  ShardRule rule = rules::shard_replicated(call);
  for (std::size_t i = 1; i < rule.in.size(); ++i) rule.in[i] = Placement::split(0);
  for (auto& out : rule.out) out = Placement::split(0);
  return rule;
}

CaseInput indices_case(const Shape& shape, std::int64_t low, std::int64_t high) {
  return {.shape = shape, .low = static_cast<double>(low), .high = static_cast<double>(high), .dtype = DType::i64};
}

// x over bags: 2-D indices, or runs of `bags` by offsets; maybe with a scale.
OpCase bag_case(const Shape& x, const Shape& indices, std::int64_t high, const Attrs& attrs, std::int64_t bags = 0,
                bool scaled = false, bool distinct = false) {
  OpCase c{{{.shape = x, .distinct = distinct}, indices_case(indices, 0, high)}, attrs};
  if (indices.rank() == 1) {
    c.in.push_back({.shape = {bags},
                    .low = 0,
                    .high = static_cast<double>(indices[0]) + 0.5,
                    .dtype = DType::i64,
                    .ascending = true});
  }
  if (scaled) c.in.push_back({.shape = indices});
  return c;
}

std::vector<OpCase> bag_cases() {
  using A = EmbeddingBagAttrs;
  return {bag_case({5, 3}, {2, 4}, 5, A{}),
          bag_case({5, 3}, {3, 2}, 5, A{true}),
          bag_case({4, 20}, {9}, 4, A{}, 3),
          bag_case({4, 20}, {9}, 4, A{true, 2}, 3),
          bag_case({6, 17}, {2, 3}, 6, A{}, 0, true),
          bag_case({6, 5}, {7}, 6, A{false, 1, true}, 4, true),
          bag_case({3}, {2, 3}, 3, A{}),
          bag_case({3, 2}, {0, 3}, 3, A{}),
          bag_case({3, 2}, {2, 0}, 3, A{true}),
          bag_case({3, 2, 2}, {5}, 3, A{true, -1, true}, 2),
          bag_case({3, 4}, {0}, 3, A{}, 2),
          bag_case({3, 0}, {2, 2}, 3, A{})};
}

std::vector<OpCase> max_cases() {
  using A = EmbeddingAttrs;
  const auto one = [](const Shape& x, const Shape& indices, const A& a, std::int64_t bags = 0) {
    return bag_case(x, indices, x[0], a, bags, false, true);
  };
  return {one({5, 3}, {2, 4}, A{}),        one({4, 20}, {9}, A{2}, 3),  one({6, 17}, {2, 3}, A{-1, true}),
          one({6, 5}, {7}, A{1, true}, 4), one({3}, {2, 3}, A{}),       one({3, 2}, {0, 3}, A{}),
          one({3, 2}, {2, 0}, A{}),        one({3, 2, 2}, {5}, A{}, 2), one({3, 4}, {0}, A{}, 2)};
}

std::vector<OpCase> spread_cases() {
  using A = BagAttrs;
  return {bag_case({2, 3}, {2, 4}, 5, A{}),
          bag_case({3, 3}, {3, 2}, 5, A{true}),
          bag_case({3, 20}, {9}, 4, A{}, 3),
          bag_case({3, 20}, {9}, 4, A{true, 2}, 3),
          bag_case({2, 17}, {2, 3}, 6, A{}, 0, true),
          bag_case({4, 5}, {7}, 6, A{false, 1}, 4, true),
          bag_case({2}, {2, 3}, 3, A{}),
          bag_case({0, 2}, {0, 3}, 3, A{}),
          bag_case({2, 2}, {2, 0}, 3, A{true}),
          bag_case({2, 2, 2}, {5}, 3, A{true}, 2)};
}

std::vector<OpCase> reduce_cases() {
  using A = BagAttrs;
  return {bag_case({8, 3}, {2, 4}, 5, A{}),
          bag_case({6, 3}, {3, 2}, 5, A{true}),
          bag_case({9, 20}, {9}, 4, A{}, 3),
          bag_case({9, 20}, {9}, 4, A{true, 2}, 3),
          bag_case({6, 17}, {2, 3}, 6, A{}, 0, true),
          bag_case({7, 5}, {7}, 6, A{false, 1}, 4, true),
          bag_case({6}, {2, 3}, 3, A{}),
          bag_case({0, 2}, {0, 3}, 3, A{}),
          bag_case({0, 2}, {2, 0}, 3, A{true}),
          bag_case({5, 2, 2}, {5}, 3, A{true}, 2)};
}

// dy or entries, and the entry each element was taken from, -1 for none.
OpCase chosen_case(const Shape& x, const Shape& chosen, std::int64_t entries, const Attrs& attrs) {
  return {{{.shape = x}, indices_case(chosen, -1, entries)}, attrs};
}

std::vector<OpCase> place_cases() {
  const auto one = [](const Shape& dy, std::int64_t entries) {
    return chosen_case(dy, dy, entries, BagPlaceAttrs{entries});
  };
  return {one({2, 3}, 5), one({3, 20}, 4), one({4}, 3),     one({2, 2, 3}, 6),
          one({0, 3}, 2), one({2, 0}, 2),  one({5, 33}, 1), one({1, 1}, 9)};
}

std::vector<OpCase> pick_cases() {
  const auto one = [](const Shape& e, std::int64_t bags) {
    return chosen_case(e, with_rows(bags, e), e[0], NoAttrs{});
  };
  return {one({5, 3}, 2), one({4, 20}, 3), one({3}, 4),     one({6, 2, 3}, 2),
          one({2, 3}, 0), one({2, 0}, 2),  one({1, 33}, 5), one({9, 1}, 1)};
}

}  // namespace

void register_ops_embedding_bag(OpRegistry& ops) {
  ops.add({.name = "embedding_bag",
           .doc = "Sums or means of the rows of a table in bags of indices.",
           .inputs = {"weight", "indices", "offsets?", "scale?"},
           .attrs = &attr_type<EmbeddingBagAttrs>(),
           .infer = infer_bag,
           .gradient = grad_bag,
           .shard = shard_bag,
           .cases = bag_cases,
           .saves = kSavesInputs});
  ops.add({.name = "embedding_bag_max",
           .doc = "The largest elements of the rows of a table in bags of indices, and which entries they are of.",
           .inputs = {"weight", "indices", "offsets?"},
           .outputs = {"y", "chosen"},
           .attrs = &attr_type<EmbeddingAttrs>(),
           .infer = infer_bag_max,
           .gradient = grad_bag_max,
           .cases = max_cases});
  ops.add({.name = "bag_spread",
           .doc = "The row of its bag for every entry, by the entry's share: the gradient of bag_reduce.",
           .inputs = {"dy", "indices", "offsets?", "scale?"},
           .attrs = &attr_type<BagAttrs>(),
           .infer = [](const InferCall& call) { return infer_rows(call, true); },
           .gradient = grad_spread,
           .cases = spread_cases,
           .saves = kSavesInputs});
  ops.add({.name = "bag_reduce",
           .doc = "Sums or means of the rows of entries in bags.",
           .inputs = {"entries", "indices", "offsets?", "scale?"},
           .attrs = &attr_type<BagAttrs>(),
           .infer = [](const InferCall& call) { return infer_rows(call, false); },
           .gradient = grad_reduce,
           .cases = reduce_cases,
           .saves = kSavesInputs});
  ops.add({.name = "bag_place",
           .doc = "Adds every element to the row it was chosen from: the gradient of bag_pick.",
           .inputs = {"dy", "chosen"},
           .attrs = &attr_type<BagPlaceAttrs>(),
           .infer = infer_place,
           .gradient =
               [](const GradCall& c) {
                 return TensorList{apply1(named_op<"bag_pick">(), {c.grads[0], c.in[1]}), Tensor()};
               },
           .cases = place_cases,
           .saves = kSavesInputs});
  ops.add({.name = "bag_pick",
           .doc = "Every element from the row that was chosen for it; 0 where none was.",
           .inputs = {"entries", "chosen"},
           .infer = infer_pick,
           .gradient =
               [](const GradCall& c) {
                 return TensorList{
                     apply1(named_op<"bag_place">(), {c.grads[0], c.in[1]}, BagPlaceAttrs{c.in[0].shape()[0]}),
                     Tensor()};
               },
           .cases = pick_cases,
           .saves = kSavesInputs});
}

}  // namespace starling
