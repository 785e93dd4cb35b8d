#include "starling/nn/embedding.h"
#include "starling/nn/layer_kinds.h"
#include "starling/nn/linear.h"
#include "starling/nn/setting_types.h"

namespace starling {
namespace nn {

Settings LinearOptions::settings() {
  return {required(setting("out", &LinearOptions::out, "width of the result", {.min = 1})),
          setting("bias", &LinearOptions::bias, "whether there is one"),
          setting("init", &LinearOptions::init, "how the weight begins"),
          setting("bias_init", &LinearOptions::bias_init, "how the bias begins")};
}

Settings BilinearOptions::settings() {
  return {required(setting("out", &BilinearOptions::out, "width of the result", {.min = 1})),
          setting("bias", &BilinearOptions::bias, "whether there is one"),
          setting("init", &BilinearOptions::init, "how the weight begins"),
          setting("bias_init", &BilinearOptions::bias_init, "how the bias begins")};
}

Settings EmbeddingOptions::settings() {
  using O = EmbeddingOptions;
  return {required(setting("vocabulary", &O::vocabulary, "ids lie below it", {.min = 1})),
          required(setting("width", &O::width, "of the row of an id", {.min = 1})),
          setting("stddev", &O::stddev, "of the normal numbers it begins with", {.min = 0}),
          setting("padding", &O::padding, "an id whose row stays zero", {.min = 0}),
          setting("sparse", &O::sparse, "gradients of the rows that were read only"),
          setting("init", &O::init, "how it begins instead")};
}

Settings EmbeddingBagOptions::settings() {
  using O = EmbeddingBagOptions;
  return {required(setting("vocabulary", &O::vocabulary, "ids lie below it", {.min = 1})),
          required(setting("width", &O::width, "of the row of an id", {.min = 1})),
          choice("mode", &O::mode, {"sum", "mean", "max"}, "what becomes of the rows of a bag"),
          setting("stddev", &O::stddev, "of the normal numbers it begins with", {.min = 0}),
          setting("padding", &O::padding, "an id that is left out", {.min = 0}),
          setting("sparse", &O::sparse, "gradients of the rows that were read only"),
          setting("init", &O::init, "how it begins instead")};
}

Settings LearnedPositionsOptions::settings() {
  using O = LearnedPositionsOptions;
  return {setting("tokens", &O::tokens, "the longest sequence; 0: that of the samples", {.min = 0}),
          setting("stddev", &O::stddev, "of the normal numbers they begin with", {.min = 0}),
          setting("init", &O::init, "how they begin instead")};
}
Settings SinusoidalPositionsOptions::settings() {
  return {setting("base", &SinusoidalPositionsOptions::base, "the longest wavelength over 2π", {.min = 1})};
}
Settings RotaryOptions::settings() {
  return {setting("base", &RotaryOptions::base, "the longest wavelength over 2π", {.min = 1}),
          setting("interleaved", &RotaryOptions::interleaved, "whether pairs are neighbours")};
}

}  // namespace nn

void register_layer_dense(nn::LayerKinds& kinds) {
  nn::add_layer<nn::LinearOptions>(kinds, "linear", "A dense layer over the last axis.",
                                   [](const nn::LinearOptions& options, const TensorType& sample) {
                                     nn::LinearOptions o = options;
                                     o.in = nn::width_of("linear", sample);
                                     return nn::Linear(o);
                                   });
  nn::add_joining_layer<nn::BilinearOptions>(
      kinds, "bilinear", "Products of the elements of two inputs, weighted and added.", 1, 2,
      [](const nn::BilinearOptions& options, std::span<const TensorType> samples) {
        nn::BilinearOptions o = options;
        o.in1 = nn::width_of("bilinear", samples.front());
        o.in2 = nn::width_of("bilinear", samples.back());
        return nn::Bilinear(o);
      });
  nn::add_layer<nn::EmbeddingOptions>(
      kinds, "embedding", "A learned row for every id.",
      [](const nn::EmbeddingOptions& o, const TensorType&) { return nn::Embedding(o); });
  nn::add_layer<nn::EmbeddingBagOptions>(
      kinds, "embedding_bag", "The rows of all ids of a sample as one.",
      [](const nn::EmbeddingBagOptions& o, const TensorType&) { return nn::EmbeddingBag(o); });
  nn::add_layer<nn::LearnedPositionsOptions>(
      kinds, "learned_positions", "A learned row added for every place.",
      [](const nn::LearnedPositionsOptions& options, const TensorType& sample) {
        nn::LearnedPositionsOptions o = options;
        check(sample.shape.rank() == 2, "[learned_positions] expected samples [t, width], got {}", to_string(sample));
        o.width = sample.shape[1];
        if (o.tokens == 0) o.tokens = sample.shape[0];
        return nn::LearnedPositions(o);
      });
  nn::add_layer<nn::SinusoidalPositionsOptions>(
      kinds, "sinusoidal_positions", "Sines and cosines of the place added.",
      [](const nn::SinusoidalPositionsOptions& o, const TensorType&) { return nn::SinusoidalPositions(o); });
  nn::add_layer<nn::RotaryOptions>(kinds, "rotary", "Pairs of elements turned by angles that grow with the place.",
                                   [](const nn::RotaryOptions& o, const TensorType&) { return nn::Rotary(o); });
}

}  // namespace starling
