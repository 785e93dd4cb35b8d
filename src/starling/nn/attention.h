#pragma once

#include "starling/nn/module.h"
#include "starling/nn/options.h"

namespace starling::nn {

struct SelfAttentionOptions {
  std::int64_t width = 0;
  std::int64_t heads = 1;  // divides the width
  bool causal = false;     // a token sees those before it and itself only
  bool bias = true;
  double dropout = 0;   // of the probabilities, while training
  bool rotary = false;  // queries and keys are turned by their places
  double rotary_base = 10000;
  static Settings settings();
};

// [n, t, width] → the same: one projection to queries, keys and values, attention in each head, one projection back. As
// a list: (x, mask); a mask is bool (true: may be seen) or floats added to the scores, broadcast to [n, heads, t, t].
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
  std::int64_t width = 0;  // of queries and of the result
  std::int64_t heads = 1;
  std::int64_t key_width = 0;  // of what keys and values are made from; 0: the width
  std::int64_t value_width = 0;
  bool causal = false;
  bool bias = true;
  double dropout = 0;
  bool rotary = false;
  double rotary_base = 10000;
  static Settings settings();
};

// Attention with projections of their own for queries, keys and values: (query [n, l, width], key [n, s, key_width],
// value [n, s, value_width], mask) → [n, l, width]. A missing value is the key, a missing key the query; the mask is
// broadcast to [n, heads, l, s].
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

// Which of t tokens belong to sequences of these lengths i64[n]: bool [n, 1, 1, t], a mask for attention.
Tensor padding_mask(const Tensor& lengths, std::int64_t tokens);
// The same from ids i64[n, t], of which one stands for nothing.
Tensor padding_mask_of(const Tensor& ids, std::int64_t padding);

}  // namespace starling::nn
