#pragma once

#include "starling/base/settings.h"
#include "starling/zoo/nets/rbm.h"
#include "starling/zoo/pretrain/greedy.h"

namespace starling::zoo {

struct AutoencoderPretrainOptions {
  std::int64_t epochs = 10;  // of each layer
  std::int64_t batch = 64;
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 0;
  double noise = 0.25;                             // share of a layer's inputs zeroed while it learns
  bool tied = true;                                // decode with the transposed weight
  VisibleUnits visible = VisibleUnits::bernoulli;  // of the first layer: data in [0, 1], or any numbers
  std::int64_t layers = 0;                         // the first so many; 0: all but the last of the network
  std::int64_t seed = 1;
  static Settings settings();
};

// Makes a stack of denoising autoencoders of the hidden layers of a sigmoid network (Bengio et al. 2007, Vincent et al.
// 2010): each learns to mend what noise has done to the outputs of the layer below. Its loss is the cross-entropy of
// numbers in [0, 1], or half the squared error, in the sum over inputs. The first field of the data is used, labels are
// not.
std::vector<PretrainedLayer> pretrain_autoencoder(nn::Module& net, std::shared_ptr<const Dataset> data,
                                                  const AutoencoderPretrainOptions& options = {},
                                                  PretrainListener listener = {});

}  // namespace starling::zoo
