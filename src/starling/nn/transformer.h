#pragma once

#include "starling/nn/attention.h"
#include "starling/nn/module.h"

namespace starling::nn {

// Pre-norm block: x + attention(norm(x)), then x + fc2(gelu(fc1(norm(x)))) with a hidden width of four times the width.
Sequential transformer_block(const SelfAttentionOptions& options);

struct TransformerOptions {
  enum class Activation : std::uint8_t { gelu, relu, silu };
  std::int64_t width = 0;
  std::int64_t heads = 1;
  std::int64_t hidden = 0;  // width between the two dense layers; 0: four times the width
  std::int64_t layers = 1;  // number of layers of a stack
  double dropout = 0;       // of attention weights and of each residual branch
  bool norm_first = true;   // x + f(norm(x)); else norm(x + f(x))
  Activation activation = Activation::gelu;
  bool causal = false;  // encoders only; decoders always are causal
  bool bias = true;
  bool rotary = false;  // rotary position embedding in self-attention
  double eps = 1e-5;
  static Settings settings();
};

// Self-attention, then two dense layers, each with a norm and a residual connection: [n, t, width] → [n, t, width]. As
// a list: (x, mask), the mask as in SelfAttention.
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

// Decoder layer, with cross-attention to a memory [n, s, width] in between: (x, memory, mask, memory_mask) → [n, t,
// width].
class TransformerDecoderLayer : public Module {
 public:
  explicit TransformerDecoderLayer(const TransformerOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;  // uses x as its own memory
  TensorList forward_list(std::span<const Tensor> xs) override;

 private:
  bool norm_first_;
  std::shared_ptr<SelfAttention> attention_;
  std::shared_ptr<MultiHeadAttention> cross_;
  std::shared_ptr<Module> norm1_, norm2_, norm3_, think_, drop_;
};

// Stack of `layers` layers, with a final norm if they are pre-norm; called like one layer.
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
