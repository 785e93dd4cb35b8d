#pragma once

#include "starling/nn/module.h"

namespace starling::nn {

struct SelfAttentionOptions {
  std::int64_t width = 0;
  std::int64_t heads = 1;  // divides the width
  bool causal = false;     // a token sees those before it and itself only
};

// [n, t, width] → the same: one projection to queries, keys and values, attention in each head, one projection back.
class SelfAttention : public Module {
 public:
  explicit SelfAttention(const SelfAttentionOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  SelfAttentionOptions options_;
  std::shared_ptr<Module> qkv_;
  std::shared_ptr<Module> out_;
};

// A pre-norm block: x + attention(norm(x)), then x + fc2(gelu(fc1(norm(x)))) with four times the width between.
Sequential transformer_block(const SelfAttentionOptions& options);

}  // namespace starling::nn
