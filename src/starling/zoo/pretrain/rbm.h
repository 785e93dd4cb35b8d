#pragma once

#include "starling/base/config/settings.h"
#include "starling/zoo/nets/rbm.h"
#include "starling/zoo/pretrain/greedy.h"

namespace starling::zoo {

struct RbmPretrainOptions {
  std::int64_t epochs = 10;  // per layer
  std::int64_t batch = 64;
  double lr = 0.05;
  double momentum = 0.5;
  double weight_decay = 2e-4;
  std::int64_t k = 1;                              // Gibbs steps of contrastive divergence
  VisibleUnits visible = VisibleUnits::bernoulli;  // inputs of the first layer: in [0, 1], or mean 0 and variance 1
  std::int64_t layers = 0;                         // number of layers to train; 0: all but the network's last
  std::int64_t seed = 1;
  static Settings settings();
};

// Pre-trains the hidden layers of a sigmoid network as a deep belief network (Hinton et al. 2006): each is trained as a
// restricted Boltzmann machine by contrastive divergence on the outputs of the layers below. Weights start as small
// normal numbers, biases as zeros. Reported losses are squared reconstruction errors. Uses the first field of the data,
// not the labels.
std::vector<PretrainedLayer> pretrain_rbm(nn::Module& net, const std::shared_ptr<const Dataset>& data,
                                          const RbmPretrainOptions& options = {}, PretrainListener listener = {});

}  // namespace starling::zoo
