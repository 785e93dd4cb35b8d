#pragma once

#include "starling/nn/module.h"
#include "starling/nn/options.h"

namespace starling::nn {

struct SelfAttentionOptions {
  std::int64_t width = 0;
  std::int64_t heads = 1;  // must divide the width
  bool causal = false;     // a token attends only to itself and earlier tokens
  bool bias = true;
  double dropout = 0;   // probability of dropping an attention weight while training
  bool rotary = false;  // rotary position embedding of queries and keys
  double rotary_base = 10000;
  static Settings settings();
};

// Multi-head self-attention, [n, t, width] → [n, t, width]: one projection to queries, keys and values, attention in
// each head, one output projection. As a list: (x, mask); a mask is bool (true: attend) or floats added to the scores,
// broadcast to [n, heads, t, t].
class SelfAttention : public Module {
 public:
  explicit SelfAttention(const SelfAttentionOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;
  TensorList forward_list(std::span<const Tensor> xs) override;

 private:
  SelfAttentionOptions options_;
  std::shared_ptr<Module> qkv_;
  std::shared_ptr<Module> out_;
};

struct MultiHeadAttentionOptions {
  std::int64_t width = 0;  // of queries and of the output
  std::int64_t heads = 1;
  std::int64_t key_width = 0;  // of the key input; 0: the width. A value_width of 0 is the key_width
  std::int64_t value_width = 0;
  bool causal = false;
  bool bias = true;
  double dropout = 0;
  bool rotary = false;
  double rotary_base = 10000;
  static Settings settings();
};

// Attention with separate projections of queries, keys and values: (query [n, l, width], key [n, s, key_width], value
// [n, s, value_width], mask) → [n, l, width]. A missing value defaults to the key, a missing key to the query; the mask
// is broadcast to [n, heads, l, s].
class MultiHeadAttention : public Module {
 public:
  explicit MultiHeadAttention(const MultiHeadAttentionOptions& options);
  Tensor attend(const Tensor& query, const Tensor& memory, const Tensor& mask = {});

 protected:
  Tensor forward(const Tensor& x) override;
  TensorList forward_list(std::span<const Tensor> xs) override;

 private:
  MultiHeadAttentionOptions options_;
  std::shared_ptr<Module> q_, k_, v_, out_;
};

// Attention mask bool [n, 1, 1, t]: true for the tokens of sequences with these lengths i64[n].
Tensor padding_mask(const Tensor& lengths, std::int64_t tokens);
// Attention mask bool [n, 1, 1, t] from ids i64[n, t]: false where the id is `padding`.
Tensor padding_mask_of(const Tensor& ids, std::int64_t padding);

}  // namespace starling::nn
