#include "starling/nn/attention.h"

#include "starling/base/error.h"
#include "starling/nn/linear.h"
#include "starling/nn/near.h"
#include "starling/ops/api/attention.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/create.h"
#include "starling/ops/api/rotary.h"
#include "starling/ops/api/shape_ops.h"

namespace starling::nn {
namespace {

void check_heads(const char* who, std::int64_t width, std::int64_t heads, bool rotary, double dropout) {
  check(width > 0 && heads > 0 && width % heads == 0,
        "[{}] expected heads that divide the width, got {} heads and width {}", who, heads, width);
  check(!rotary || width / heads % 2 == 0, "[{}] expected heads of an even width for rotary places, got {}", who,
        width / heads);
  check(dropout >= 0 && dropout < 1, "[{}] expected dropout in [0, 1), got {}", who, dropout);
}

std::shared_ptr<Module> projection(std::int64_t in, std::int64_t out, bool bias) {
  return std::make_shared<Linear>(LinearOptions{.in = in, .out = out, .bias = bias});
}

struct Heads {
  std::int64_t heads;
  bool causal, rotary;
  double rotary_base, dropout;
};

// [n, t, width] → [n, heads, t, width / heads]
Tensor by_head(const Tensor& x, std::int64_t heads) {
  return transpose(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}

Tensor attend_heads(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Heads& how) {
  const auto placed = [&](const Tensor& x) {
    const Tensor heads = by_head(x, how.heads);
    return how.rotary ? rotary(heads, {.base = how.rotary_base}) : heads;
  };
  const Tensor queries = placed(q), keys = placed(k), values = by_head(v, how.heads);
  const Tensor y =
      scaled_dot_product_attention(queries, keys, values, {.mask = mask, .causal = how.causal, .dropout = how.dropout});
  return reshape(transpose(y, {0, 2, 1, 3}), {q.size(0), q.size(1), v.size(2)});
}

void expect_sequence(const char* who, const char* what, const Tensor& x, std::int64_t width) {
  if (x.rank() == 3 && x.size(2) == width) return;
  fail("[{}] expected {} [n, t, {}], got {}", who, what, width, to_string(x.type()));
}

Tensor nth(std::span<const Tensor> xs, std::size_t i) { return i < xs.size() ? xs[i] : Tensor(); }

}  // namespace

SelfAttention::SelfAttention(const SelfAttentionOptions& o) : options_(o) {
  check_heads("SelfAttention", o.width, o.heads, o.rotary, o.dropout);
  qkv_ = add_module("qkv", projection(o.width, 3 * o.width, o.bias));
  out_ = add_module("out", projection(o.width, o.width, o.bias));
}

Tensor SelfAttention::forward(const Tensor& x) { return SelfAttention::forward_list({&x, 1})[0]; }

TensorList SelfAttention::forward_list(std::span<const Tensor> xs) {
  check(xs.size() == 1 || xs.size() == 2, "[SelfAttention] expected x and maybe a mask, got {} inputs", xs.size());
  expect_sequence("SelfAttention", "x", xs[0], options_.width);
  const double dropout = options_.dropout > 0 && training() ? options_.dropout : 0;
  const std::vector<Tensor> parts = split((*qkv_)(xs[0]), 3, 2);
  const Tensor y = attend_heads(parts[0], parts[1], parts[2], nth(xs, 1),
                                {options_.heads, options_.causal, options_.rotary, options_.rotary_base, dropout});
  return {(*out_)(y)};
}

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionOptions& o) : options_(o) {
  check_heads("MultiHeadAttention", o.width, o.heads, o.rotary, o.dropout);
  if (options_.key_width == 0) options_.key_width = o.width;
  if (options_.value_width == 0) options_.value_width = options_.key_width;
  q_ = add_module("q", projection(o.width, o.width, o.bias));
  k_ = add_module("k", projection(options_.key_width, o.width, o.bias));
  v_ = add_module("v", projection(options_.value_width, o.width, o.bias));
  out_ = add_module("out", projection(o.width, o.width, o.bias));
}

Tensor MultiHeadAttention::forward(const Tensor& x) { return MultiHeadAttention::forward_list({&x, 1})[0]; }

Tensor MultiHeadAttention::attend(const Tensor& query, const Tensor& memory, const Tensor& mask) {
  return (*this)({query, memory, memory, mask})[0];
}

TensorList MultiHeadAttention::forward_list(std::span<const Tensor> xs) {
  check(!xs.empty() && xs.size() <= 4,
        "[MultiHeadAttention] expected query, key, value and mask at most, got {} inputs", xs.size());
  const Tensor& query = xs[0];
  const Tensor& key = nth(xs, 1).defined() ? xs[1] : query;
  const Tensor& value = nth(xs, 2).defined() ? xs[2] : key;
  expect_sequence("MultiHeadAttention", "queries", query, options_.width);
  expect_sequence("MultiHeadAttention", "keys", key, options_.key_width);
  expect_sequence("MultiHeadAttention", "values", value, options_.value_width);
  const double dropout = options_.dropout > 0 && training() ? options_.dropout : 0;
  const Tensor q = (*q_)(query), k = (*k_)(key), v = (*v_)(value);
  const Tensor y = attend_heads(q, k, v, nth(xs, 3),
                                {options_.heads, options_.causal, options_.rotary, options_.rotary_base, dropout});
  return {(*out_)(y)};
}

Tensor padding_mask(const Tensor& lengths, std::int64_t tokens) {
  if (lengths.rank() != 1) fail("[padding_mask] expected lengths [n], got {}", to_string(lengths.type()));
  const Tensor places = near(arange(0, static_cast<double>(tokens)), lengths);
  return less(places, reshape(lengths, {lengths.size(0), 1, 1, 1}));
}

Tensor padding_mask_of(const Tensor& ids, std::int64_t padding) {
  if (ids.rank() != 2) fail("[padding_mask] expected ids [n, t], got {}", to_string(ids.type()));
  return reshape(not_equal(ids, static_cast<double>(padding)), {ids.size(0), 1, 1, ids.size(1)});
}

}  // namespace starling::nn
