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
  using namespace nn;
  add_layer<DropoutOptions>(kinds, "dropout", "Elements zeroed while training.",
                            [](const DropoutOptions& o, const TensorType&) { return Dropout(o); });
  add_layer<DropoutOptions>(kinds, "channel_dropout", "Whole channels zeroed while training.",
                            [](const DropoutOptions& o, const TensorType&) { return ChannelDropout(o); });
  add_layer<DropoutOptions>(kinds, "alpha_dropout", "Dropout for networks of selu.",
                            [](const DropoutOptions& o, const TensorType&) { return AlphaDropout(o); });
  add_layer<GaussianNoiseOptions>(kinds, "gaussian_noise", "Normal numbers added while training.",
                                  [](const GaussianNoiseOptions& o, const TensorType&) { return GaussianNoise(o); });
}

}  // namespace starling
