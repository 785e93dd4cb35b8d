#include "starling/base/error.h"
#include "starling/nn/normalize.h"
#include "starling/nn/sequence.h"
#include "starling/nn/transformer.h"
#include "starling/ops/binary.h"
#include "starling/ops/random.h"
#include "starling/ops/slice.h"
#include "starling/zoo/width.h"

namespace starling {
namespace {

constexpr std::int64_t kVocabulary = 65;
constexpr std::int64_t kTokens = 256;
constexpr std::int64_t kHeadWidth = 64;
constexpr double kBegin = 0.02;  // deviation of the embeddings at the start

// Ids i64[n, t] → the sum of a row for the token and one for its place.
class PlacedTokens : public nn::Module {
 public:
  PlacedTokens(std::int64_t vocabulary, std::int64_t tokens, std::int64_t width)
      : token_(add_module("token", std::make_shared<nn::Embedding>(nn::EmbeddingOptions{vocabulary, width, kBegin}))),
        place_(&add_parameter("place", normal({tokens, width}, {.stddev = kBegin}))) {}

 protected:
  Tensor forward(const Tensor& ids) override {
    check(ids.rank() == 2 && ids.size(1) <= place_->size(0), "[gpt] expected ids [n, t] of at most {} tokens, got {}",
          place_->size(0), to_string(ids.type()));
    const bool all = ids.size(1) == place_->size(0);
    return add((*token_)(ids), all ? *place_ : narrow(*place_, 0, 0, ids.size(1)));
  }

 private:
  std::shared_ptr<nn::Module> token_;
  Tensor* place_;
};

}  // namespace

nn::Sequential zoo::gpt(const NetOptions& options) {
  const std::int64_t vocabulary = or_published(options.vocabulary, kVocabulary), width = scaled(384, options);
  const std::int64_t layers = or_published(options.depth, 6);
  nn::Sequential net;
  net.add("embed", PlacedTokens(vocabulary, or_published(options.tokens, kTokens), width));
  for (std::int64_t i = 1; i <= layers; ++i) {
    net.add("block" + std::to_string(i),
            nn::transformer_block(
                {.width = width, .heads = std::max<std::int64_t>(1, width / kHeadWidth), .causal = true}));
  }
  net.add("norm", nn::LayerNorm({.width = width}))
      .add("head", nn::Linear({.in = width, .out = vocabulary, .bias = false}));
  return net;
}

void register_zoo_gpt(zoo::Table& table) {
  table["gpt"] = {.doc = "Causal transformer: 6 pre-norm layers of width 384, 6 heads, gelu, 256 tokens out of 65.",
                  .sample = {kTokens},
                  .classes = kVocabulary,
                  .batch = 8,
                  .make = [](const zoo::NetOptions& o) { return zoo::gpt(o); },
                  .small = {{.width = 1.0 / 3, .depth = 2, .tokens = 16}, {16}, 4},
                  .vocabulary = kVocabulary,
                  .label_per_token = true};
}

}  // namespace starling
