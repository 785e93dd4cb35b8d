#include "starling/nn/transformer.h"

#include "starling/base/error.h"
#include "starling/nn/layers.h"
#include "starling/nn/normalize.h"
#include "starling/nn/residual.h"
#include "starling/ops/api/binary.h"

namespace starling::nn {

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

namespace {

std::shared_ptr<Module> norm_of(const TransformerOptions& o) {
  return std::make_shared<LayerNorm>(LayerNormOptions{.width = o.width, .eps = o.eps, .bias = o.bias});
}

std::shared_ptr<Module> think_of(const TransformerOptions& o) {
  const std::int64_t hidden = o.hidden > 0 ? o.hidden : 4 * o.width;
  Sequential think;
  think.add("fc1", Linear({.in = o.width, .out = hidden, .bias = o.bias}));
  switch (o.activation) {
    case TransformerOptions::Activation::gelu: think.add("gelu", Gelu()); break;
    case TransformerOptions::Activation::relu: think.add("relu", Relu()); break;
    case TransformerOptions::Activation::silu: think.add("silu", Silu()); break;
  }
  if (o.dropout > 0) think.add("drop", Dropout(o.dropout));
  think.add("fc2", Linear({.in = hidden, .out = o.width, .bias = o.bias}));
  return std::make_shared<Sequential>(std::move(think));
}

std::shared_ptr<SelfAttention> attention_of(const TransformerOptions& o, bool causal) {
  return std::make_shared<SelfAttention>(SelfAttentionOptions{
      .width = o.width, .heads = o.heads, .causal = causal, .bias = o.bias, .dropout = o.dropout, .rotary = o.rotary});
}

Tensor nth(std::span<const Tensor> xs, std::size_t i) { return i < xs.size() ? xs[i] : Tensor(); }

// Residual branch around `part`, normalised before or after.
template <class F>
Tensor with_part(const Tensor& x, Module& norm, Module& drop, bool norm_first, F&& part) {
  if (norm_first) return add(x, drop(part(norm(x))));
  return norm(add(x, drop(part(x))));
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerOptions& o)
    : norm_first_(o.norm_first),
      attention_(add_module("attention", attention_of(o, o.causal))),
      norm1_(add_module("norm1", norm_of(o))),
      norm2_(add_module("norm2", norm_of(o))),
      think_(add_module("think", think_of(o))),
      drop_(add_module("drop", std::make_shared<Dropout>(o.dropout))) {}

Tensor TransformerEncoderLayer::forward(const Tensor& x) { return TransformerEncoderLayer::forward_list({&x, 1})[0]; }

TensorList TransformerEncoderLayer::forward_list(std::span<const Tensor> xs) {
  check(xs.size() == 1 || xs.size() == 2, "[TransformerEncoderLayer] expected x and maybe a mask, got {} inputs",
        xs.size());
  const Tensor mask = nth(xs, 1);
  const Tensor seen = with_part(xs[0], *norm1_, *drop_, norm_first_, [&](const Tensor& x) {
    return (*attention_)({x, mask})[0];
  });
  return {with_part(seen, *norm2_, *drop_, norm_first_, [&](const Tensor& x) { return (*think_)(x); })};
}

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerOptions& o)
    : norm_first_(o.norm_first),
      attention_(add_module("attention", attention_of(o, true))),
      cross_(add_module("cross", std::make_shared<MultiHeadAttention>(MultiHeadAttentionOptions{
                                     .width = o.width, .heads = o.heads, .bias = o.bias, .dropout = o.dropout}))),
      norm1_(add_module("norm1", norm_of(o))),
      norm2_(add_module("norm2", norm_of(o))),
      norm3_(add_module("norm3", norm_of(o))),
      think_(add_module("think", think_of(o))),
      drop_(add_module("drop", std::make_shared<Dropout>(o.dropout))) {}

Tensor TransformerDecoderLayer::forward(const Tensor& x) {
  const Tensor both[] = {x, x};
  return TransformerDecoderLayer::forward_list(both)[0];
}

TensorList TransformerDecoderLayer::forward_list(std::span<const Tensor> xs) {
  check(xs.size() >= 2 && xs.size() <= 4,
        "[TransformerDecoderLayer] expected x, a memory and maybe masks of both, got {} inputs", xs.size());
  const Tensor& memory = xs[1];
  const Tensor mask = nth(xs, 2), memory_mask = nth(xs, 3);
  Tensor y = with_part(xs[0], *norm1_, *drop_, norm_first_, [&](const Tensor& x) {
    return (*attention_)({x, mask})[0];
  });
  y = with_part(y, *norm2_, *drop_, norm_first_,
                [&](const Tensor& x) { return cross_->attend(x, memory, memory_mask); });
  return {with_part(y, *norm3_, *drop_, norm_first_, [&](const Tensor& x) { return (*think_)(x); })};
}

namespace {

void check_layers(const char* who, const TransformerOptions& o) {
  check(o.layers > 0, "[{}] expected at least 1 layer, got {}", who, o.layers);
}

// Passes the first input through all layers; the others go to each layer.
TensorList through(const std::vector<std::shared_ptr<Module>>& layers, Module* norm, std::span<const Tensor> xs) {
  TensorList in;
  for (const auto& x : xs) in.push_back(x);
  for (const auto& layer : layers) in[0] = (*layer)(std::span<const Tensor>(in.data(), in.size()))[0];
  return {norm ? (*norm)(in[0]) : in[0]};
}

}  // namespace

TransformerEncoder::TransformerEncoder(const TransformerOptions& o) {
  check_layers("TransformerEncoder", o);
  for (std::int64_t i = 1; i <= o.layers; ++i)
    layers_.push_back(add_module("layer" + std::to_string(i), std::make_shared<TransformerEncoderLayer>(o)));
  if (o.norm_first) norm_ = add_module("norm", norm_of(o));
}
Tensor TransformerEncoder::forward(const Tensor& x) { return TransformerEncoder::forward_list({&x, 1})[0]; }
TensorList TransformerEncoder::forward_list(std::span<const Tensor> xs) {
  check(!xs.empty(), "[TransformerEncoder] expected x and maybe a mask, got nothing");
  return through(layers_, norm_.get(), xs);
}

TransformerDecoder::TransformerDecoder(const TransformerOptions& o) {
  check_layers("TransformerDecoder", o);
  for (std::int64_t i = 1; i <= o.layers; ++i)
    layers_.push_back(add_module("layer" + std::to_string(i), std::make_shared<TransformerDecoderLayer>(o)));
  if (o.norm_first) norm_ = add_module("norm", norm_of(o));
}
Tensor TransformerDecoder::forward(const Tensor& x) {
  const Tensor both[] = {x, x};
  return TransformerDecoder::forward_list(both)[0];
}
TensorList TransformerDecoder::forward_list(std::span<const Tensor> xs) {
  check(xs.size() >= 2, "[TransformerDecoder] expected x, a memory and maybe masks of both, got {} inputs", xs.size());
  return through(layers_, norm_.get(), xs);
}

}  // namespace starling::nn
