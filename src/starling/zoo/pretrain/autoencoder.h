#pragma once

#include "starling/base/config/settings.h"
#include "starling/zoo/nets/rbm.h"
#include "starling/zoo/pretrain/greedy.h"

namespace starling::zoo {

struct AutoencoderPretrainOptions {
  std::int64_t epochs = 10;  // per layer
  std::int64_t batch = 64;
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 0;
  double noise = 0.25;                             // share of a layer's inputs zeroed while it trains
  bool tied = true;                                // decoder uses the transposed weight
  VisibleUnits visible = VisibleUnits::bernoulli;  // inputs of the first layer: in [0, 1], or any numbers
  std::int64_t layers = 0;                         // number of layers to train; 0: all but the network's last
  std::int64_t seed = 1;
  static Settings settings();
};

// Pre-trains the hidden layers of a sigmoid network as a stack of denoising autoencoders (Bengio et al. 2007, Vincent
// et al. 2010): each layer learns to reconstruct the outputs of the layer below from noisy ones. The loss is the
// cross-entropy for numbers in [0, 1], else half the squared error, summed over inputs. Uses the first field of the
// data, not the labels.
std::vector<PretrainedLayer> pretrain_autoencoder(nn::Module& net, const std::shared_ptr<const Dataset>& data,
                                                  const AutoencoderPretrainOptions& options = {},
                                                  PretrainListener listener = {});

}  // namespace starling::zoo
