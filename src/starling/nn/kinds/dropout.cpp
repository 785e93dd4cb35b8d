#include "starling/nn/dropout.h"

#include "starling/nn/layer_kinds.h"
#include "starling/nn/setting_types.h"

namespace starling {
namespace nn {

Settings DropoutOptions::settings() {
  return {setting("p", &DropoutOptions::p, "the share that is dropped, less than 1", {.min = 0, .max = 1})};
}
Settings GaussianNoiseOptions::settings() {
  return {setting("stddev", &GaussianNoiseOptions::stddev, "of what is added", {.min = 0})};
}

}  // namespace nn

void register_layer_dropout(nn::LayerKinds& kinds) {
  nn::add_layer<nn::DropoutOptions>(kinds, "dropout", "Elements zeroed while training.",
                                    [](const nn::DropoutOptions& o, const TensorType&) { return nn::Dropout(o); });
  nn::add_layer<nn::DropoutOptions>(
      kinds, "channel_dropout", "Whole channels zeroed while training.",
      [](const nn::DropoutOptions& o, const TensorType&) { return nn::ChannelDropout(o); });
  nn::add_layer<nn::DropoutOptions>(kinds, "alpha_dropout", "Dropout for networks of selu.",
                                    [](const nn::DropoutOptions& o, const TensorType&) { return nn::AlphaDropout(o); });
  nn::add_layer<nn::GaussianNoiseOptions>(
      kinds, "gaussian_noise", "Normal numbers added while training.",
      [](const nn::GaussianNoiseOptions& o, const TensorType&) { return nn::GaussianNoise(o); });
}

}  // namespace starling
