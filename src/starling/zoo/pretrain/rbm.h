#pragma once

#include "starling/base/settings.h"
#include "starling/zoo/nets/rbm.h"
#include "starling/zoo/pretrain/greedy.h"

namespace starling::zoo {

struct RbmPretrainOptions {
  std::int64_t epochs = 10;  // of each layer
  std::int64_t batch = 64;
  double lr = 0.05;
  double momentum = 0.5;
  double weight_decay = 2e-4;
  std::int64_t k = 1;                              // Gibbs steps of contrastive divergence
  VisibleUnits visible = VisibleUnits::bernoulli;  // of the first layer: data in [0, 1], or around 0 with variance 1
  std::int64_t layers = 0;                         // the first so many; 0: all but the last of the network
  std::int64_t seed = 1;
  static Settings settings();
};

// Makes a deep belief network of the hidden layers of a sigmoid network (Hinton et al. 2006): each is trained as a
// restricted Boltzmann machine by contrastive divergence on what the layers below make of the data. Weights begin as
// small normal numbers, biases as zeros. Losses told are the squared errors of reconstructions. The first field of the
// data is used, labels are not.
std::vector<PretrainedLayer> pretrain_rbm(nn::Module& net, std::shared_ptr<const Dataset> data,
                                          const RbmPretrainOptions& options = {}, PretrainListener listener = {});

}  // namespace starling::zoo
