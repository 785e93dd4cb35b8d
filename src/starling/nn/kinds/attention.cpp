#include "starling/nn/attention.h"

#include "starling/nn/layer_kinds.h"
#include "starling/nn/setting_types.h"
#include "starling/nn/transformer.h"

namespace starling {
namespace nn {

Settings SelfAttentionOptions::settings() {
  using O = SelfAttentionOptions;
  return {setting("heads", &O::heads, "divide the width", {.min = 1}),
          setting("causal", &O::causal, "a token sees those before it and itself only"),
          setting("bias", &O::bias, "of the projections"),
          setting("dropout", &O::dropout, "of the probabilities, less than 1", {.min = 0, .max = 1}),
          setting("rotary", &O::rotary, "queries and keys are turned by their places"),
          setting("rotary_base", &O::rotary_base, "the longest wavelength over 2π", {.min = 1})};
}

Settings MultiHeadAttentionOptions::settings() {
  using O = MultiHeadAttentionOptions;
  return {setting("heads", &O::heads, "divide the width", {.min = 1}),
          setting("causal", &O::causal, "a token sees those before it and itself only"),
          setting("bias", &O::bias, "of the projections"),
          setting("dropout", &O::dropout, "of the probabilities, less than 1", {.min = 0, .max = 1}),
          setting("rotary", &O::rotary, "queries and keys are turned by their places"),
          setting("rotary_base", &O::rotary_base, "the longest wavelength over 2π", {.min = 1})};
}

Settings TransformerOptions::settings() {
  using O = TransformerOptions;
  return {
      setting("heads", &O::heads, "divide the width", {.min = 1}),
      setting("hidden", &O::hidden, "between the two dense layers; 0: four times the width", {.min = 0}),
      setting("layers", &O::layers, "of a stack", {.min = 1, .max = 10000}),
      setting("dropout", &O::dropout, "of probabilities and of what each part adds, less than 1", {.min = 0, .max = 1}),
      setting("norm_first", &O::norm_first, "x + f(norm(x)), else norm(x + f(x))"),
      choice("activation", &O::activation, {"gelu", "relu", "silu"}, "between the dense layers"),
      setting("causal", &O::causal, "encoders: a token sees those before it and itself only"),
      setting("bias", &O::bias, "of projections, dense layers and norms"),
      setting("rotary", &O::rotary, "queries and keys are turned by their places"),
      setting("eps", &O::eps, "added to variances", {.min = 0})};
}

namespace {

std::int64_t sequence_width(const char* name, const TensorType& sample) {
  check(sample.shape.rank() == 2, "[{}] expected samples [t, width], got {}", name, to_string(sample));
  return sample.shape[1];
}

template <class M>
void add_transformer(LayerKinds& kinds, const char* name, const char* doc, std::size_t least, std::size_t most) {
  add_joining_layer<TransformerOptions>(kinds, name, doc, least, most,
                                        [name](const TransformerOptions& options, std::span<const TensorType> samples) {
                                          TransformerOptions o = options;
                                          o.width = sequence_width(name, samples[0]);
                                          return M(o);
                                        });
}

}  // namespace
}  // namespace nn

void register_layer_attention(nn::LayerKinds& kinds) {
  nn::add_layer<nn::SelfAttentionOptions>(kinds, "self_attention",
                                          "Tokens of a sequence [t, width] look at each other.",
                                          [](const nn::SelfAttentionOptions& options, const TensorType& sample) {
                                            nn::SelfAttentionOptions o = options;
                                            o.width = nn::sequence_width("self_attention", sample);
                                            return nn::SelfAttention(o);
                                          });
  nn::add_joining_layer<nn::MultiHeadAttentionOptions>(
      kinds, "multi_head_attention", "Tokens of the first input look at those of the second (and third: values).", 1, 3,
      [](const nn::MultiHeadAttentionOptions& options, std::span<const TensorType> samples) {
        nn::MultiHeadAttentionOptions o = options;
        o.width = nn::sequence_width("multi_head_attention", samples[0]);
        if (samples.size() > 1) o.key_width = nn::sequence_width("multi_head_attention", samples[1]);
        if (samples.size() > 2) o.value_width = nn::sequence_width("multi_head_attention", samples[2]);
        return nn::MultiHeadAttention(o);
      });
  nn::add_transformer<nn::TransformerEncoderLayer>(kinds, "transformer_encoder_layer",
                                                   "Self-attention and two dense layers.", 1, 1);
  nn::add_transformer<nn::TransformerEncoder>(kinds, "transformer_encoder", "A stack of encoder layers.", 1, 1);
  nn::add_transformer<nn::TransformerDecoderLayer>(
      kinds, "transformer_decoder_layer", "Causal self-attention, attention to the second input, dense layers.", 2, 2);
  nn::add_transformer<nn::TransformerDecoder>(kinds, "transformer_decoder", "A stack of decoder layers.", 2, 2);
}

}  // namespace starling
