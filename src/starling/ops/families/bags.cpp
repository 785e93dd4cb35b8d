#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/embedding.h"
#include "starling/ops/def/bag_operands.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"

// Maps between rows of entries and rows of bags, used by embedding_bag's gradients.
namespace starling {
namespace {

// bag_spread maps one row per bag to one per entry; bag_reduce maps one per entry to one per bag.
Types infer_rows(const InferCall& call, bool spread) {
  bags::expect_rows(call);
  const auto& a = call.attrs.as<op::BagAttrs>();
  const op::BagOperands operands = bag_operands(call.op, call.in);
  bags::expect_no_scaled_mean(call, operands, a.mean);
  check(a.padding >= -1, "[{}] expected padding to be -1 or a row, got {}", call.op.name, a.padding);
  const auto from = spread ? operands.bags : operands.entries, to = spread ? operands.entries : operands.bags;
  check(call.in[0].shape[0] == from, "[{}] expected {} rows, got {}", call.op.name, from, to_string(call.in[0]));
  return {TensorType{call.in[0].dtype, bags::with_rows(to, call.in[0].shape)}};
}

TensorList grad_spread(const GradCall& c) {
  TensorList out(c.in.size());
  const int scale = bags::scale_operand(c);
  if (c.needs(0)) out[0] = apply1(named_op<"bag_reduce">(), bags::operands(c.grads[0], c, true), c.attrs);
  if (scale >= 0 && c.needs(scale)) {
    out[static_cast<std::size_t>(scale)] =
        bags::row_dots(apply1(c.op, bags::operands(c.in[0], c, false), c.attrs), c.grads[0], c.in[1].shape());
  }
  return out;
}

TensorList grad_reduce(const GradCall& c) {
  TensorList out(c.in.size());
  const int scale = bags::scale_operand(c);
  if (c.needs(0)) out[0] = apply1(named_op<"bag_spread">(), bags::operands(c.grads[0], c, true), c.attrs);
  if (scale >= 0 && c.needs(scale)) {
    out[static_cast<std::size_t>(scale)] = bags::row_dots(
        apply1(named_op<"bag_spread">(), bags::operands(c.grads[0], c, false), c.attrs), c.in[0], c.in[1].shape());
  }
  return out;
}

Types infer_place(const InferCall& call) {
  bags::expect_rows(call);
  const auto entries = call.attrs.as<op::BagPlaceAttrs>().entries;
  check(call.in[1] == TensorType{DType::i64, call.in[0].shape}, "[bag_place] expected chosen {}, got {}",
        to_string(TensorType{DType::i64, call.in[0].shape}), to_string(call.in[1]));
  check(entries >= 0, "[bag_place] expected entries of at least 0, got {}", entries);
  return {TensorType{call.in[0].dtype, bags::with_rows(entries, call.in[0].shape)}};
}

Types infer_pick(const InferCall& call) {
  bags::expect_rows(call);
  const Shape& chosen = call.in[1].shape;
  const bool fits = call.in[1].dtype == DType::i64 && chosen.rank() == call.in[0].shape.rank() &&
                    bags::with_rows(chosen[0], call.in[0].shape) == chosen;
  check(fits, "[bag_pick] expected chosen i64 with rows like those of {}, got {}", to_string(call.in[0]),
        to_string(call.in[1]));
  return {TensorType{call.in[0].dtype, chosen}};
}

std::vector<OpCase> spread_cases() {
  using A = op::BagAttrs;
  return {bags::sample({2, 3}, {2, 4}, 5, A{}),
          bags::sample({3, 3}, {3, 2}, 5, A{true}),
          bags::sample({3, 20}, {9}, 4, A{}, 3),
          bags::sample({3, 20}, {9}, 4, A{true, 2}, 3),
          bags::sample({2, 17}, {2, 3}, 6, A{}, 0, true),
          bags::sample({4, 5}, {7}, 6, A{false, 1}, 4, true),
          bags::sample({2}, {2, 3}, 3, A{}),
          bags::sample({0, 2}, {0, 3}, 3, A{}),
          bags::sample({2, 2}, {2, 0}, 3, A{true}),
          bags::sample({2, 2, 2}, {5}, 3, A{true}, 2)};
}

std::vector<OpCase> reduce_cases() {
  using A = op::BagAttrs;
  return {bags::sample({8, 3}, {2, 4}, 5, A{}),
          bags::sample({6, 3}, {3, 2}, 5, A{true}),
          bags::sample({9, 20}, {9}, 4, A{}, 3),
          bags::sample({9, 20}, {9}, 4, A{true, 2}, 3),
          bags::sample({6, 17}, {2, 3}, 6, A{}, 0, true),
          bags::sample({7, 5}, {7}, 6, A{false, 1}, 4, true),
          bags::sample({6}, {2, 3}, 3, A{}),
          bags::sample({0, 2}, {0, 3}, 3, A{}),
          bags::sample({0, 2}, {2, 0}, 3, A{true}),
          bags::sample({5, 2, 2}, {5}, 3, A{true}, 2)};
}

// Sample call: dy or entries, and the entry each element was taken from, -1 for none.
OpCase chosen_case(const Shape& x, const Shape& chosen, std::int64_t entries, const Attrs& attrs) {
  return {{{.shape = x}, {.shape = chosen, .low = -1, .high = static_cast<double>(entries), .dtype = DType::i64}},
          attrs};
}

std::vector<OpCase> place_cases() {
  const auto one = [](const Shape& dy, std::int64_t entries) {
    return chosen_case(dy, dy, entries, op::BagPlaceAttrs{entries});
  };
  return {one({2, 3}, 5), one({3, 20}, 4), one({4}, 3),     one({2, 2, 3}, 6),
          one({0, 3}, 2), one({2, 0}, 2),  one({5, 33}, 1), one({1, 1}, 9)};
}

std::vector<OpCase> pick_cases() {
  const auto one = [](const Shape& e, std::int64_t bags) {
    return chosen_case(e, bags::with_rows(bags, e), e[0], op::NoAttrs{});
  };
  return {one({5, 3}, 2), one({4, 20}, 3), one({3}, 4),     one({6, 2, 3}, 2),
          one({2, 3}, 0), one({2, 0}, 2),  one({1, 33}, 5), one({9, 1}, 1)};
}

}  // namespace

void register_ops_bags(OpRegistry& ops) {
  ops.add({.name = "bag_spread",
           .doc = "The row of its bag for every entry, by the entry's share: the gradient of bag_reduce.",
           .inputs = {"dy", "indices", "offsets?", "scale?"},
           .attrs = &attr_type<op::BagAttrs>(),
           .infer = [](const InferCall& call) { return infer_rows(call, true); },
           .gradient = grad_spread,
           .cases = spread_cases,
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "bag_reduce",
           .doc = "Sums or means of the rows of entries in bags.",
           .inputs = {"entries", "indices", "offsets?", "scale?"},
           .attrs = &attr_type<op::BagAttrs>(),
           .infer = [](const InferCall& call) { return infer_rows(call, false); },
           .gradient = grad_reduce,
           .cases = reduce_cases,
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "bag_place",
           .doc = "Adds every element to the row it was chosen from: the gradient of bag_pick.",
           .inputs = {"dy", "chosen"},
           .attrs = &attr_type<op::BagPlaceAttrs>(),
           .infer = infer_place,
           .gradient =
               [](const GradCall& c) {
                 return TensorList{apply1(named_op<"bag_pick">(), {c.grads[0], c.in[1]}), Tensor()};
               },
           .cases = place_cases,
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "bag_pick",
           .doc = "Every element from the row that was chosen for it; 0 where none was.",
           .inputs = {"entries", "chosen"},
           .infer = infer_pick,
           .gradient =
               [](const GradCall& c) {
                 return TensorList{
                     apply1(named_op<"bag_place">(), {c.grads[0], c.in[1]}, op::BagPlaceAttrs{c.in[0].shape()[0]}),
                     Tensor()};
               },
           .cases = pick_cases,
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
