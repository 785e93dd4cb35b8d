#include "starling/nn/transformer.h"

#include "starling/base/error.h"
#include "starling/nn/layers.h"
#include "starling/nn/normalize.h"
#include "starling/nn/residual.h"
#include "starling/ops/attention.h"
#include "starling/ops/shape_ops.h"
#include "starling/ops/slice.h"

namespace starling::nn {

SelfAttention::SelfAttention(const SelfAttentionOptions& o) : options_(o) {
  check(o.width > 0 && o.heads > 0 && o.width % o.heads == 0,
        "[SelfAttention] expected heads that divide the width, got {} heads and width {}", o.heads, o.width);
  qkv_ = add_module("qkv", std::make_shared<Linear>(LinearOptions{.in = o.width, .out = 3 * o.width}));
  out_ = add_module("out", std::make_shared<Linear>(LinearOptions{.in = o.width, .out = o.width}));
}

Tensor SelfAttention::forward(const Tensor& x) {
  check(x.rank() == 3 && x.size(2) == options_.width, "[SelfAttention] expected x [n, t, {}], got {}", options_.width,
        to_string(x.type()));
  const std::int64_t n = x.size(0), t = x.size(1), heads = options_.heads;
  const auto by_head = [&](const Tensor& part) {
    return transpose(reshape(part, {n, t, heads, options_.width / heads}), {0, 2, 1, 3});
  };
  const std::vector<Tensor> parts = split((*qkv_)(x), 3, 2);
  const Tensor y = scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]),
                                                {.causal = options_.causal});
  return (*out_)(reshape(transpose(y, {0, 2, 1, 3}), {n, t, options_.width}));
}

Sequential transformer_block(const SelfAttentionOptions& o) {
  Sequential attend, think, block;
  attend.add("norm", LayerNorm({.width = o.width})).add("attention", SelfAttention(o));
  think.add("norm", LayerNorm({.width = o.width}))
      .add("fc1", Linear({.in = o.width, .out = 4 * o.width}))
      .add("gelu", Gelu())
      .add("fc2", Linear({.in = 4 * o.width, .out = o.width}));
  block.add("attend", Residual(std::move(attend))).add("think", Residual(std::move(think)));
  return block;
}

}  // namespace starling::nn
