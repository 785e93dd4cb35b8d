#include "starling/zoo/nets/gpt.h"

#include "starling/base/error.h"
#include "starling/nn/layers.h"
#include "starling/nn/normalize.h"
#include "starling/nn/sequence.h"
#include "starling/nn/transformer.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/slice.h"
#include "starling/zoo/recipes.h"

namespace starling {
namespace {

constexpr double kBegin = 0.02;  // initial standard deviation of the embeddings

// Ids i64[n, t] → the sum of a token and a position embedding.
class PlacedTokens : public nn::Module {
 public:
  PlacedTokens(std::int64_t vocabulary, std::int64_t tokens, std::int64_t width)
      : token_(std::make_shared<nn::Embedding>(nn::EmbeddingOptions{vocabulary, width, kBegin})),
        place_(&add_parameter("place", nn::initial({tokens, width}, nn::Init::normal(kBegin)))) {
    add_module("token", token_);
  }
  std::shared_ptr<nn::Embedding> tokens() const { return token_; }

 protected:
  Tensor forward(const Tensor& ids) override {
    check(ids.rank() == 2 && ids.size(1) <= place_->size(0), "[gpt] expected ids [n, t] of at most {} tokens, got {}",
          place_->size(0), to_string(ids.type()));
    const bool all = ids.size(1) == place_->size(0);
    return add((*token_)(ids), all ? *place_ : narrow(*place_, 0, 0, ids.size(1)));
  }

 private:
  std::shared_ptr<nn::Embedding> token_;
  Tensor* place_;
};

// Logits by the embedding of the tokens, whose parameter it is.
class TiedHead : public nn::Module {
 public:
  explicit TiedHead(std::shared_ptr<nn::Embedding> tokens) : tokens_(std::move(tokens)) {}

 protected:
  Tensor forward(const Tensor& x) override { return linear(x, tokens_->weight()); }

 private:
  std::shared_ptr<nn::Embedding> tokens_;
};

}  // namespace

Settings zoo::GptOptions::settings() {
  return {vocabulary_setting<GptOptions>(),
          tokens_setting<GptOptions>(),
          setting("width", &GptOptions::width, "numbers for each token", {.min = 1, .max = 65536}),
          setting("depth", &GptOptions::depth, "layers", {.min = 1, .max = 1000}),
          setting("heads", &GptOptions::heads, "attention heads of a layer; they divide the width",
                  {.min = 1, .max = 1024}),
          dropout_setting<GptOptions>("share of the embeddings dropped while training"),
          setting("attention_dropout", &GptOptions::attention_dropout,
                  "share of the attention weights dropped while training", {.min = 0, .max = 0.99}),
          setting("tied", &GptOptions::tied, "the head has the weights of the tokens' embedding")};
}

zoo::Gpt2Options::Gpt2Options() { vocabulary = 50304, tokens = 1024, width = 768, depth = 12, heads = 12, tied = true; }

nn::Sequential zoo::gpt(const GptOptions& o) {
  nn::Sequential net;
  const PlacedTokens embed(o.vocabulary, o.tokens, o.width);
  net.add("embed", embed);
  if (o.dropout > 0) net.add("drop", nn::Dropout(o.dropout));
  for (std::int64_t i = 1; i <= o.depth; ++i) {
    net.add(
        "block" + std::to_string(i),
        nn::transformer_block({.width = o.width, .heads = o.heads, .causal = true, .dropout = o.attention_dropout}));
  }
  net.add("norm", nn::LayerNorm({.width = o.width}));
  if (o.tied)
    net.add("head", TiedHead(embed.tokens()));
  else
    net.add("head", nn::Linear({.in = o.width, .out = o.vocabulary, .bias = false}));
  return net;
}

void register_zoo_gpt(zoo::Table& table) {
  zoo::Gpt2Options small;
  small.vocabulary = 80, small.tokens = 16, small.width = 64, small.depth = small.heads = 2;
  table.add_net<zoo::Gpt2Options>(
      "gpt2", "GPT-2: 12 pre-norm layers of width 768, 12 heads, gelu, 1024 tokens out of 50304, tied embedding.",
      {.batch = 16, .small = small}, [](const zoo::Gpt2Options& o) {
        return zoo::language_model(o.vocabulary, o.tokens, [o] { return zoo::gpt(o); });
      });
  table.add_net<zoo::GptOptions>(
      "gpt", "Causal transformer: 6 pre-norm layers of width 384, 6 heads, gelu, 256 tokens out of 65.",
      {.batch = 8, .small = {.tokens = 16, .width = 128, .depth = 2, .heads = 2}}, [](const zoo::GptOptions& o) {
        return zoo::language_model(o.vocabulary, o.tokens, [o] { return zoo::gpt(o); });
      });
}

}  // namespace starling
