#include "starling/ops/api/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/state.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/attention.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"
#include "starling/ops/def/sharding/factors.h"

namespace starling {
namespace {

double scale_of(const op::AttentionAttrs& a, std::int64_t d) {
  return a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(d, 1)));
}

Tensor column(const Tensor& x) {
  Shape shape = x.shape();
  shape.push_back(1);
  return reshape(x, shape);
}
Tensor row_sum(const Tensor& x) { return sum(x, {.axes = {-1}}); }
Tensor times(const Tensor& a, const Tensor& b) { return matmul(a, b); }
Tensor times_t(const Tensor& a, const Tensor& b) { return matmul(a, b, {.trans_b = true}); }
Tensor t_times(const Tensor& a, const Tensor& b) { return matmul(a, b, {.trans_a = true}); }

// Visible keys of each query, as bool [l, s].
Tensor causal_mask(std::int64_t queries, std::int64_t keys) {
  std::vector<double> seen(static_cast<std::size_t>(queries * keys));
  for (std::int64_t i = 0; i < queries; ++i) {
    for (std::int64_t j = 0; j < std::min(keys, i + 1); ++j) seen[static_cast<std::size_t>(i * keys + j)] = 1;
  }
  return constant(from_doubles(seen, {queries, keys}, DType::boolean));
}

// Full scores, for second derivatives, gradients of masks and dropout only.
Tensor scores(const Tensor& q, const Tensor& k, const Tensor& mask, const op::AttentionAttrs& a) {
  Tensor s = mul(times_t(q, k), scale_of(a, q.shape().back()));
  const Tensor unseen = full({}, -std::numeric_limits<double>::infinity(), q.dtype());
  if (mask.defined()) s = mask.dtype() == DType::boolean ? where(mask, s, unseen) : add(s, mask);
  if (a.causal) s = where(causal_mask(q.shape()[q.rank() - 2], k.shape()[k.rank() - 2]), s, unseen);
  return s;
}

Tensor probabilities(const Tensor& q, const Tensor& k, const Tensor& lse, const Tensor& mask,
                     const op::AttentionAttrs& a) {
  return exp(sub(scores(q, k, mask, a), column(lse)));
}

Tensor mask_of(std::span<const Tensor> in, std::size_t at) { return in.size() > at ? in[at] : Tensor(); }

TensorList grad_attention(const GradCall& c) {
  const Tensor &q = c.in[0], &k = c.in[1], &v = c.in[2], &y = c.out[0], &lse = c.out[1];
  const Tensor mask = mask_of(c.in, 3);
  const Tensor dy = c.grads[0].defined() ? c.grads[0] : full(y.shape(), 0.0, y.dtype());
  const Tensor dlse = c.grads[1].defined() ? c.grads[1] : full(lse.shape(), 0.0, y.dtype());
  TensorList operands{dy, dlse, q, k, v, y, lse};
  if (mask.defined()) operands.push_back(mask);
  const auto& a = c.attrs.as<op::AttentionAttrs>();
  TensorList out = apply(named_op<"scaled_dot_product_attention_backward">(), operands,
                         op::AttentionBackwardAttrs{a.causal, a.scale, !c.grads[1].defined()});
  if (mask.defined() && c.needs(3) && is_float(mask.dtype())) {
    const Tensor inner = sub(times_t(dy, v), column(sub(row_sum(mul(dy, y)), dlse)));
    const Tensor p = probabilities(q, k, lse, mask, a);
    out.push_back(rules::sum_to(mul(p, inner), mask.shape()));
  }
  return out;
}

// Second derivative. Backward is p = exp(scores - lse), ds = p (dy vᵀ - δ) with δ = Σ dy y - dlse, dq = scale ds k, dk
// = scale dsᵀ q, dv = pᵀ dy; this is its derivative, by the product rule, with y and lse as independent operands.
TensorList grad_attention_backward(const GradCall& c) {
  const Tensor &dy = c.in[0], &dlse = c.in[1], &q = c.in[2], &k = c.in[3], &v = c.in[4], &y = c.in[5], &lse = c.in[6];
  const Tensor mask = mask_of(c.in, 7);
  const auto& given_attrs = c.attrs.as<op::AttentionBackwardAttrs>();
  const op::AttentionAttrs a{given_attrs.causal, given_attrs.scale};
  const double scale = scale_of(a, q.shape().back());
  const auto given = [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    return c.grads[at].defined() ? c.grads[at] : full(c.out[at].shape(), 0.0, q.dtype());
  };
  const Tensor uq = given(0), uk = given(1), uv = given(2);
  const Tensor p = probabilities(q, k, lse, mask, a);
  const Tensor inner = sub(times_t(dy, v), column(sub(row_sum(mul(dy, y)), dlse)));
  const Tensor ds = mul(p, inner);
  const Tensor to_ds = mul(add(times_t(uq, k), times_t(q, uk)), scale);
  const Tensor to_inner = mul(to_ds, p), to_delta = neg(row_sum(to_inner));
  const Tensor to_scores = mul(p, add(mul(to_ds, inner), times_t(dy, uv)));
  TensorList out(c.in.size());
  out[0] = add(add(times(p, uv), times(to_inner, v)), mul(column(to_delta), y));
  out[1] = neg(to_delta);
  out[2] = mul(add(times(to_scores, k), times(ds, uk)), scale);
  out[3] = mul(add(t_times(to_scores, q), t_times(ds, uq)), scale);
  out[4] = t_times(to_inner, dy);
  out[5] = mul(column(to_delta), dy);
  out[6] = neg(row_sum(to_scores));
  if (mask.defined() && is_float(mask.dtype())) out[7] = rules::sum_to(to_scores, mask.shape());
  return out;
}

// Checks q, k and v from operand `at` on; returns the shape of lse.
Shape check_operands(const InferCall& call, std::size_t at) {
  const TensorType &q = call.in[at], &k = call.in[at + 1], &v = call.in[at + 2];
  check(is_float(q.dtype) && k.dtype == q.dtype && v.dtype == q.dtype,
        "[{}] expected floats of one dtype, got {}, {} and {}", call.op.name, to_string(q), to_string(k), to_string(v));
  const int rank = q.shape.rank();
  bool fits = rank >= 2 && k.shape.rank() == rank && v.shape.rank() == rank;
  for (int i = 0; fits && i < rank - 2; ++i) fits = q.shape[i] == k.shape[i] && q.shape[i] == v.shape[i];
  check(fits && q.shape.back() == k.shape.back() && k.shape[rank - 2] == v.shape[rank - 2],
        "[{}] expected q [.., l, d], k [.., s, d] and v [.., s, dv], got {}, {} and {}", call.op.name, to_string(q),
        to_string(k), to_string(v));
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  check(q.shape[rank - 2] < kMost && k.shape[rank - 2] < kMost && q.shape.back() < kMost && v.shape.back() < kMost,
        "[{}] expected sizes below 2^31, got {}, {} and {}", call.op.name, to_string(q), to_string(k), to_string(v));
  const double scale =
      at == 0 ? call.attrs.as<op::AttentionAttrs>().scale : call.attrs.as<op::AttentionBackwardAttrs>().scale;
  check(std::abs(scale) <= 1e6, "[{}] expected a scale within ±1e6, got {}", call.op.name, scale);
  Shape lse = q.shape;
  lse.erase(rank - 1);
  return lse;
}

void check_mask(const InferCall& call, std::size_t at, const Shape& lse, std::int64_t keys, DType dtype) {
  if (call.in.size() <= at) return;
  const TensorType& mask = call.in[at];
  Shape full = lse;
  full.push_back(keys);
  check(mask.dtype == DType::boolean || mask.dtype == dtype, "[{}] expected a mask of bool or {}, got {}", call.op.name,
        name(dtype), to_string(mask));
  check(mask.shape.rank() <= full.rank() && broadcast_shapes(mask.shape, full, call.op.name.c_str()) == full,
        "[{}] expected a mask that broadcasts to {}, got {}", call.op.name, to_string(full), to_string(mask));
}

Shape with_last(Shape shape, std::int64_t last) {
  shape[shape.rank() - 1] = last;
  return shape;
}

Types infer_attention(const InferCall& call) {
  const Shape lse = check_operands(call, 0);
  const Shape& v = call.in[2].shape;
  check_mask(call, 3, lse, v[v.rank() - 2], call.in[0].dtype);
  const Shape y = with_last(call.in[0].shape, v.back());
  check_size(y, 8, call.op.name.c_str());
  return {{call.in[0].dtype, y}, {call.in[0].dtype, lse}};
}

Types infer_backward(const InferCall& call) {
  const Shape lse = check_operands(call, 2);
  const Shape& v = call.in[4].shape;
  const DType dtype = call.in[2].dtype;
  check_mask(call, 7, lse, v[v.rank() - 2], dtype);
  const TensorType y{dtype, with_last(call.in[2].shape, v.back())}, stats{dtype, lse};
  check(call.in[0] == y && call.in[5] == y && call.in[1] == stats && call.in[6] == stats,
        "[{}] expected dy and y {}, dlse and lse {}, got {}, {}, {} and {}", call.op.name, to_string(y),
        to_string(stats), to_string(call.in[0]), to_string(call.in[5]), to_string(call.in[1]), to_string(call.in[6]));
  return {call.in[2], call.in[3], call.in[4]};
}

// Dimension of a mask that stands for leading dimension `dim` of q; kNone where it is broadcast along it.
std::int8_t mask_dim(const Shape& mask, const Shape& q, int dim) {
  const int own = dim - q.rank() + mask.rank();
  return static_cast<std::int8_t>(own >= 0 && mask[own] == q[dim] ? own : Factor::kNone);
}

// Leading dimensions are a batch, of samples or heads: each may be split.
ShardRule shard_attention(const ShardCall& call, std::size_t q, std::size_t mask) {
  const Shape& shape = call.in[q].shape;
  Factors factors;
  for (int dim = 0; dim < shape.rank() - 2; ++dim) {
    const auto d = static_cast<std::int8_t>(dim);
    Factor heads;
    for (std::size_t i = 0; i < call.in.size(); ++i) heads.in.push_back(d);
    for (std::size_t i = 0; i < call.out.size(); ++i) heads.out.push_back(d);
    if (mask < call.in.size()) heads.in[mask] = mask_dim(call.in[mask].shape, shape, d);
    factors.all.push_back(heads);
  }
  return rules::shard_factors(call, factors);
}

struct Sample {
  Shape q, k, v;
  op::AttentionAttrs attrs;
  std::optional<CaseInput> mask = std::nullopt;
};

std::vector<Sample> samples() {
  const CaseInput seen{.shape = {4, 5}, .low = 0, .high = 2, .dtype = DType::boolean};
  const CaseInput none{.shape = {1, 5}, .low = 0, .high = 0.5, .dtype = DType::boolean};
  return {{{2, 4, 3}, {2, 5, 3}, {2, 5, 2}, {}},
          {{4, 3}, {5, 3}, {5, 4}, {.scale = 0.7}, seen},
          {{2, 2, 5, 4}, {2, 2, 5, 4}, {2, 2, 5, 4}, {.causal = true}},
          {{2, 3, 2}, {2, 4, 2}, {2, 4, 3}, {.scale = -0.5}, CaseInput{.shape = {2, 1, 4}}},
          {{3, 2, 4, 2}, {3, 2, 5, 2}, {3, 2, 5, 2}, {.causal = true}, CaseInput{.shape = {2, 4, 5}}},
          {{2, 6, 2}, {2, 3, 2}, {2, 3, 2}, {.causal = true}},
          {{2, 4, 2}, {2, 5, 2}, {2, 5, 2}, {}, none},
          {{0, 4, 3}, {0, 5, 3}, {0, 5, 2}, {}},
          {{2, 3, 2}, {2, 0, 2}, {2, 0, 2}, {}},
          {{1, 35, 3}, {1, 37, 3}, {1, 37, 17}, {.causal = true}},
          {{1, 19, 17}, {1, 35, 17}, {1, 35, 3}, {}, CaseInput{.shape = {35}}}};
}

std::vector<OpCase> cases_of(bool backward) {
  std::vector<OpCase> cases;
  for (const auto& s : samples()) {
    const Shape y = with_last(s.q, s.v.back());
    Shape lse = s.q;
    lse.erase(lse.rank() - 1);
    OpCase c{{}, s.attrs};
    const bool dlse_is_zero = cases.size() % 2 == 1;
    if (backward) {
      c.attrs = op::AttentionBackwardAttrs{s.attrs.causal, s.attrs.scale, dlse_is_zero};
      const double most = dlse_is_zero ? 0 : 2;
      c.in = {{.shape = y}, {.shape = lse, .low = -most, .high = most}};
    }
    for (const auto& shape : {s.q, s.k, s.v}) c.in.push_back({.shape = shape});
    if (backward) {
      c.in.push_back({.shape = y});
      c.in.push_back({.shape = lse, .low = 1, .high = 3});
    }
    if (s.mask) c.in.push_back(*s.mask);
    cases.push_back(c);
  }
  return cases;
}

Tensor heads_of(const Tensor& x, std::int64_t heads) {
  const Shape& s = x.shape();
  return transpose(reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  const OpDef& op = named_op<"scaled_dot_product_attention">();
  const op::AttentionAttrs attrs{o.causal, o.scale};
  TensorList operands{q, k, v};
  if (o.mask.defined()) operands.push_back(o.mask);
  const TensorList out = apply(op, operands, attrs);
  if (o.dropout == 0) return out[0];
  return matmul(dropout(probabilities(q, k, out[1], o.mask, attrs), o.dropout), v);
}

Tensor multi_head_attention(const Tensor& query, const Tensor& key, const Tensor& value, const MultiHeadWeights& w,
                            std::int64_t heads, const AttentionOptions& options) {
  check(query.rank() == 3 && key.rank() == 3 && value.rank() == 3,
        "[multi_head_attention] expected query, key and value [n, length, in], got {}, {} and {}",
        to_string(query.type()), to_string(key.type()), to_string(value.type()));
  const Tensor q = linear(query, w.w_q, w.b_q), k = linear(key, w.w_k, w.b_k), v = linear(value, w.w_v, w.b_v);
  check(heads >= 1 && q.shape()[2] % heads == 0 && k.shape()[2] % heads == 0 && v.shape()[2] % heads == 0,
        "[multi_head_attention] expected projections that divide into {} heads, got {}, {} and {}", heads, q.shape()[2],
        k.shape()[2], v.shape()[2]);
  const Tensor y = scaled_dot_product_attention(heads_of(q, heads), heads_of(k, heads), heads_of(v, heads), options);
  const Tensor joined = reshape(transpose(y, {0, 2, 1, 3}), {q.shape()[0], q.shape()[1], v.shape()[2]});
  return linear(joined, w.w_out, w.b_out);
}

namespace {

// Visible pairs of query and key; q is the index of the queries among the operands.
double visible_pairs(const CostCall& call, std::size_t q) {
  const double l = costs::size(call.in[q], -2), s = costs::size(call.in[q + 1], -2);
  const double heads = costs::elements(call.in[q]) / std::max(1.0, l * costs::size(call.in[q], -1));
  if (!costs::flag(call, "causal")) return heads * l * s;
  const double full = std::min(l, s);  // query i sees i + 1 keys, up to all
  return heads * (full * (full + 1) / 2 + (l - full) * s);
}
double flops_of_attention(const CostCall& call) {
  const double d = costs::size(call.in[0], -1), dv = costs::size(call.in[2], -1);
  return visible_pairs(call, 0) * (2 * d + 2 * dv + 5);  // scores, sum of values, softmax
}
double flops_of_attention_backward(const CostCall& call) {
  const double d = costs::size(call.in[2], -1), dv = costs::size(call.in[4], -1);
  return visible_pairs(call, 2) * (6 * d + 4 * dv + 8);  // scores again, dq, dk; dp, dv; softmax and its gradient
}

}  // namespace

void register_ops_attention(OpRegistry& ops) {
  ops.add({.name = "scaled_dot_product_attention",
           .doc = "softmax(q · kᵀ · scale + mask) · v, and each query's log-sum-exp (0 where it sees no key).",
           .inputs = {"q", "k", "v", "mask?"},
           .outputs = {"y", "lse"},
           .attrs = &attr_type<op::AttentionAttrs>(),
           .infer = infer_attention,
           .gradient = grad_attention,
           .shard = [](const ShardCall& call) { return shard_attention(call, 0, 3); },
           .cases = [] { return cases_of(false); },
           .saves = kSavesAll,
           .cost = {flops_of_attention},
           .precision = Width::narrow});
  ops.add({.name = "scaled_dot_product_attention_backward",
           .doc = "The gradients of attention for q, k and v, from its results.",
           .inputs = {"dy", "dlse", "q", "k", "v", "y", "lse", "mask?"},
           .outputs = {"dq", "dk", "dv"},
           .attrs = &attr_type<op::AttentionBackwardAttrs>(),
           .infer = infer_backward,
           .gradient = grad_attention_backward,
           .shard = [](const ShardCall& call) { return shard_attention(call, 2, 7); },
           .cases = [] { return cases_of(true); },
           .saves = kSavesAll,
           .cost = {flops_of_attention_backward},
           .precision = Width::wide});
}

}  // namespace starling
