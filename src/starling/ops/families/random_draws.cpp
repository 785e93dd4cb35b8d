#include <limits>

#include "starling/base/error.h"
#include "starling/ops/api/random.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/random.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/random_checks.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"
#include "starling/ops/def/scopes/scope.h"
#include "starling/tensor/dispatch.h"

namespace starling {

Tensor bernoulli(const Shape& shape, double p, DType dtype) {
  return apply1(named_op<"bernoulli">(), {op::random_key()},
                op::BernoulliAttrs{.shape = shape, .site = next_random_site(), .p = p, .dtype = dtype});
}

Tensor bernoulli(const Tensor& p) {
  return apply1(named_op<"bernoulli">(), {op::random_key(p.device()), p},
                op::BernoulliAttrs{.shape = p.shape(), .site = next_random_site(), .dtype = p.dtype()});
}

Tensor randint(const Shape& shape, const RandintOptions& o) {
  return apply1(named_op<"randint">(), {op::random_key()},
                op::RandintAttrs{{shape}, {}, {}, next_random_site(), o.low, o.high, o.dtype});
}

Tensor multinomial(const Tensor& weights, const MultinomialOptions& o) {
  return apply1(named_op<"multinomial">(), {weights, op::random_key(weights.device())},
                op::MultinomialAttrs{o.count, o.replacement, {}, {}, next_random_site()});
}

Tensor permutation(std::int64_t n) {
  return apply1(named_op<"permutation">(), {op::random_key()}, op::PermutationAttrs{n, next_random_site()});
}

Tensor shuffle(const Tensor& x, std::int64_t axis) {
  return apply1(named_op<"shuffle">(), {x, op::own_key(x.device())}, op::ShuffleAttrs{axis, false, next_random_site()});
}

namespace {

Types infer_bernoulli(const InferCall& call) {
  check_key(call.in[0], call);
  const auto& a = call.attrs.as<op::BernoulliAttrs>();
  check_size(a.shape, size_of(a.dtype), call.op.name.c_str());
  check_piece(a.shape, a.global, a.offset, call);
  check(a.p >= 0 && a.p <= 1, "[bernoulli] expected a probability in [0, 1], got {}", a.p);
  if (call.in.size() > 1) {
    rules::expect_float(call, 1);
    check(call.in[1].shape == a.shape, "[bernoulli] expected probabilities {}, got {}", to_string(a.shape),
          to_string(call.in[1]));
  }
  return {TensorType{a.dtype, a.shape}};
}

// True if low and high - 1 are values of an integer dtype.
bool holds(DType dtype, std::int64_t low, std::int64_t high) {
  if (is_float(dtype) || dtype == DType::boolean) return false;
  return dispatch(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return std::in_range<T>(low) && std::in_range<T>(high - 1);
    } else {
      return false;
    }
  });
}

Types infer_randint(const InferCall& call) {
  check_key(call.in[0], call);
  const auto& a = call.attrs.as<op::RandintAttrs>();
  check_size(a.shape, size_of(a.dtype), call.op.name.c_str());
  check_piece(a.shape, a.global, a.offset, call);
  check(a.low < a.high, "[randint] expected low < high, got {} and {}", a.low, a.high);
  check(holds(a.dtype, a.low, a.high), "[randint] expected an integer dtype that holds [{}, {}), got {}", a.low, a.high,
        name(a.dtype));
  return {TensorType{a.dtype, a.shape}};
}

Types infer_multinomial(const InferCall& call) {
  rules::expect_float(call);
  check_key(call.in[1], call);
  const auto& a = call.attrs.as<op::MultinomialAttrs>();
  const Shape& weights = call.in[0].shape;
  check((weights.rank() == 1 || weights.rank() == 2) && weights.back() >= 1,
        "[multinomial] expected weights [rows, k] or [k] with k ≥ 1, got {}", to_string(weights));
  check(a.count >= 1 && (a.replacement || a.count <= weights.back()),
        "[multinomial] expected at least 1 draw, and at most {} without replacement, got {}", weights.back(), a.count);
  Shape out = weights;
  out[out.rank() - 1] = a.count;
  check_size(out, sizeof(std::int64_t), "multinomial");
  check_piece(out, a.global, a.offset, call);
  check(a.global.empty() || (out.rank() == 2 && a.global[1] == a.count),
        "[multinomial] expected pieces of whole rows, got {} of {}", to_string(out), to_string(a.global));
  return {TensorType{DType::i64, out}};
}

Types infer_permutation(const InferCall& call) {
  check_key(call.in[0], call);
  const std::int64_t n = call.attrs.as<op::PermutationAttrs>().n;
  check(n >= 0 && n <= std::int64_t{1} << 40, "[permutation] expected 0 to 2^40 numbers, got {}", n);
  return {TensorType{DType::i64, {n}}};
}

Types infer_shuffle(const InferCall& call) {
  check_key(call.in[1], call);
  check(call.in[0].shape.rank() >= 1, "[shuffle] expected a dimension to shuffle, got {}", to_string(call.in[0]));
  normalize_axis(call.attrs.as<op::ShuffleAttrs>().axis, call.in[0].shape.rank(), "shuffle");
  return {call.in[0]};
}

const CaseInput& kKey = kSampleKey;

std::vector<OpCase> bernoulli_cases() {
  const auto attrs = [](Shape shape, double p, std::int64_t site, Shape global = {}, Shape offset = {}) {
    return op::BernoulliAttrs{shape, global, offset, site, p, DType::f64};
  };
  const auto p = [](Shape shape) { return CaseInput{.shape = shape, .low = 0, .high = 1}; };
  return {{{kKey}, attrs({4, 5}, 0.3, 3)},
          {{kKey}, attrs({33}, 0.9, 4)},
          {{kKey}, attrs({2, 5}, 0.5, 4, {7, 5}, {3, 0})},
          {{kKey}, attrs({4, 2}, 0.5, 4, {4, 5}, {0, 2})},
          {{kKey}, attrs({0}, 0.5, 0)},
          {{kKey, p({3, 4})}, attrs({3, 4}, 0.5, 1)},
          {{kKey, p({2, 9})}, attrs({2, 9}, 0.5, 1, {8, 9}, {4, 0})},
          {{kKey}, op::BernoulliAttrs{.shape = {19}, .site = 2, .dtype = DType::boolean}}};
}

std::vector<OpCase> randint_cases() {
  const auto big = std::int64_t{1} << 62;
  return {{{kKey}, op::RandintAttrs{{4, 5}, {}, {}, 3, 0, 10}},
          {{kKey}, op::RandintAttrs{{33}, {}, {}, 4, -7, 8, DType::i32}},
          {{kKey}, op::RandintAttrs{{2, 5}, {7, 5}, {3, 0}, 4, 0, 3}},
          {{kKey}, op::RandintAttrs{{4, 2}, {4, 5}, {0, 2}, 4, 0, 256, DType::u8}},
          {{kKey}, op::RandintAttrs{{0}, {}, {}, 1, 0, 2}},
          {{kKey}, op::RandintAttrs{{9}, {}, {}, 1, -big, big + big / 2}}};
}

std::vector<OpCase> multinomial_cases() {
  const auto weights = [](Shape shape) { return CaseInput{.shape = shape, .low = 0.1, .high = 2}; };
  return {{{weights({3, 4}), kKey}, op::MultinomialAttrs{2, false, {}, {}, 3}},
          {{weights({5}), kKey}, op::MultinomialAttrs{5, false, {}, {}, 4}},
          {{weights({2, 3}), kKey}, op::MultinomialAttrs{9, true, {}, {}, 5}},
          {{weights({2, 6}), kKey}, op::MultinomialAttrs{4, true, {8, 4}, {3, 0}, 5}},
          {{weights({2, 6}), kKey}, op::MultinomialAttrs{3, false, {8, 3}, {3, 0}, 5}},
          {{weights({0, 3}), kKey}, op::MultinomialAttrs{}},
          {{weights({1, 1}), kKey}, op::MultinomialAttrs{}}};
}

std::vector<OpCase> shuffle_cases() {
  const auto one = [](Shape x, std::int64_t axis, bool inverse = false) {
    return OpCase{{{.shape = x}, kKey}, op::ShuffleAttrs{axis, inverse, 7}};
  };
  return {one({6}, 0),       one({4, 3}, 0),          one({4, 3}, 1),  one({4, 3}, -1, true), one({0, 3}, 0),
          one({2, 5, 3}, 1), one({2, 5, 3}, 1, true), one({1, 20}, 0), one({33}, 0, true)};
}

// Rows are drawn independently, so they may be split.
ShardRule shard_rows(const ShardCall& call) {
  if (call.in[0].shape.rank() != 2 || !call.layouts[0].is_split(0)) return rules::shard_replicated(call);
  return {{Layout::split(0), Layout::replicate()}, {Layout::split(0)}};
}

ShardRule shard_bernoulli(const ShardCall& call) {
  if (call.in.size() < 2 || !call.layouts[1].is_split()) return rules::shard_replicated(call);
  return {{Layout::replicate(), call.layouts[1]}, {call.layouts[1]}};
}

}  // namespace

void register_ops_random_draws(OpRegistry& ops) {
  ops.add({.name = "bernoulli",
           .doc = "1 with probability p, else 0; p may be a tensor.",
           .inputs = {"key", "p?"},
           .attrs = &attr_type<op::BernoulliAttrs>(),
           .infer = infer_bernoulli,
           .shard = shard_bernoulli,
           .cases = bernoulli_cases,
           .random = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "randint",
           .doc = "Integers in [low, high), all equally likely.",
           .inputs = {"key"},
           .attrs = &attr_type<op::RandintAttrs>(),
           .infer = infer_randint,
           .shard = rules::shard_replicated,
           .cases = randint_cases,
           .random = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "multinomial",
           .doc = "Categories drawn in proportion to each row of weights.",
           .inputs = {"weights", "key"},
           .attrs = &attr_type<op::MultinomialAttrs>(),
           .infer = infer_multinomial,
           .shard = shard_rows,
           .cases = multinomial_cases,
           .random = true,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "permutation",
           .doc = "0 … n - 1 in an order of which all are equally likely.",
           .inputs = {"key"},
           .attrs = &attr_type<op::PermutationAttrs>(),
           .infer = infer_permutation,
           .shard = rules::shard_replicated,
           .cases =
               [] {
                 std::vector<OpCase> cases;
                 for (std::int64_t n : {5, 1, 0, 33, 100}) cases.push_back({{kKey}, op::PermutationAttrs{n, n + 3}});
                 return cases;
               },
           .random = true,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "shuffle",
           .doc = "x in the order of a permutation along one axis.",
           .inputs = {"x", "key"},
           .attrs = &attr_type<op::ShuffleAttrs>(),
           .infer = infer_shuffle,
           .gradient =
               [](const GradCall& c) {
                 op::ShuffleAttrs back = c.attrs.as<op::ShuffleAttrs>();
                 back.inverse = !back.inverse;
                 return TensorList{apply1(c.op, {c.grads[0], c.in[1]}, back), Tensor()};
               },
           .shard = rules::shard_replicated,
           .cases = shuffle_cases,
           .saves = kSavesInputs,
           .random = true,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
