#include "starling/zoo/nets/transformer.h"

#include "starling/base/error.h"
#include "starling/nn/attention.h"
#include "starling/nn/layers.h"
#include "starling/nn/sequence.h"
#include "starling/nn/transformer.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/zoo/recipes.h"

namespace starling {

Settings zoo::TransformerOptions::settings() {
  using O = TransformerOptions;
  return {classes_setting<O>(),
          vocabulary_setting<O>(),
          tokens_setting<O>(),
          setting("width", &O::width, "numbers for each token", {.min = 1, .max = 65536}),
          setting("depth", &O::depth, "layers", {.min = 1, .max = 1000}),
          setting("heads", &O::heads, "attention heads of a layer; they divide the width", {.min = 1, .max = 1024}),
          dropout_setting<O>("share dropped of embeddings, attention and what each layer adds, while training"),
          setting("padding", &O::padding, "the id that stands for no token; none: all are tokens", {.min = 0})};
}

zoo::TransformerClassifier::TransformerClassifier(const TransformerOptions& o) : options_(o) {
  embed_ = add_module("embed", std::make_shared<nn::Embedding>(
                                   nn::EmbeddingOptions{.vocabulary = o.vocabulary, .width = o.width, .stddev = 0.02}));
  places_ = add_module("places", std::make_shared<nn::LearnedPositions>(
                                     nn::LearnedPositionsOptions{.tokens = o.tokens, .width = o.width}));
  drop_ = add_module("drop", std::make_shared<nn::Dropout>(o.dropout));
  encoder_ = add_module("encoder", std::make_shared<nn::TransformerEncoder>(nn::TransformerOptions{
                                       .width = o.width, .heads = o.heads, .layers = o.depth, .dropout = o.dropout}));
  fc_ = add_module("fc", std::make_shared<nn::Linear>(nn::LinearOptions{.in = o.width, .out = o.classes}));
}

Tensor zoo::TransformerClassifier::forward(const Tensor& ids) {
  check(ids.rank() == 2 && ids.size(1) <= options_.tokens,
        "[transformer] expected ids [n, t] of at most {} tokens, got {}", options_.tokens, to_string(ids.type()));
  const Tensor x = (*drop_)((*places_)((*embed_)(ids)));
  if (!options_.padding) return (*fc_)(mean((*encoder_)(x), {.axes = {1}}));
  const Tensor seen = (*encoder_)({x, nn::padding_mask_of(ids, *options_.padding)})[0];
  const Tensor there =
      reshape(cast(not_equal(ids, static_cast<double>(*options_.padding)), x.dtype()), {ids.size(0), ids.size(1), 1});
  return (*fc_)(sum(seen * there, {.axes = {1}}) / maximum(sum(there, {.axes = {1}}), 1));
}

void register_zoo_transformer(zoo::Table& table) {
  using O = zoo::TransformerOptions;
  table.add_net<O>("transformer", "Transformer encoder: 2 pre-norm layers of width 128, mean over tokens, dense.",
                   {.bench = {.dropout = 0},
                    .batch = 16,
                    .small = {.vocabulary = 30, .tokens = 10, .width = 24, .heads = 3, .dropout = 0, .padding = 0}},
                   [](const O& o) {
                     return zoo::classifier({.sample = {o.tokens}, .below = o.vocabulary}, o.classes,
                                            [o] { return zoo::TransformerClassifier(o); });
                   });
}

}  // namespace starling
