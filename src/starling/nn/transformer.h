#pragma once

#include "starling/nn/attention.h"
#include "starling/nn/module.h"

namespace starling::nn {

// A pre-norm block: x + attention(norm(x)), then x + fc2(gelu(fc1(norm(x)))) with four times the width between.
Sequential transformer_block(const SelfAttentionOptions& options);

struct TransformerOptions {
  enum class Activation : std::uint8_t { gelu, relu, silu };
  std::int64_t width = 0;
  std::int64_t heads = 1;
  std::int64_t hidden = 0;  // between the two dense layers; 0: four times the width
  std::int64_t layers = 1;  // of a stack
  double dropout = 0;       // of probabilities and of what each part adds
  bool norm_first = true;   // x + f(norm(x)); else norm(x + f(x))
  Activation activation = Activation::gelu;
  bool causal = false;  // encoders; decoders always are
  bool bias = true;
  bool rotary = false;  // places told by turning queries and keys of self-attention
  double eps = 1e-5;
  static Settings settings();
};

// Self-attention, then two dense layers, each with its norm and added to what came in: [n, t, width] → the same. As a
// list: (x, mask), the mask as in SelfAttention.
class TransformerEncoderLayer : public Module {
 public:
  explicit TransformerEncoderLayer(const TransformerOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;
  TensorList forward_list(std::span<const Tensor> xs) override;

 private:
  bool norm_first_;
  std::shared_ptr<SelfAttention> attention_;
  std::shared_ptr<Module> norm1_, norm2_, think_, drop_;
};

// The same with attention to a memory [n, s, width] between: (x, memory, mask, memory_mask) → [n, t, width].
class TransformerDecoderLayer : public Module {
 public:
  explicit TransformerDecoderLayer(const TransformerOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;  // x is its own memory
  TensorList forward_list(std::span<const Tensor> xs) override;

 private:
  bool norm_first_;
  std::shared_ptr<SelfAttention> attention_;
  std::shared_ptr<MultiHeadAttention> cross_;
  std::shared_ptr<Module> norm1_, norm2_, norm3_, think_, drop_;
};

// `layers` of them, and a last norm behind pre-norm layers; called like one layer.
class TransformerEncoder : public Module {
 public:
  explicit TransformerEncoder(const TransformerOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;
  TensorList forward_list(std::span<const Tensor> xs) override;

 private:
  std::vector<std::shared_ptr<Module>> layers_;
  std::shared_ptr<Module> norm_;
};
class TransformerDecoder : public Module {
 public:
  explicit TransformerDecoder(const TransformerOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;
  TensorList forward_list(std::span<const Tensor> xs) override;

 private:
  std::vector<std::shared_ptr<Module>> layers_;
  std::shared_ptr<Module> norm_;
};

}  // namespace starling::nn
