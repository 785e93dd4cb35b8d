#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "starling/data/datasets/dataset.h"
#include "starling/nn/module.h"

namespace starling::zoo {

// Greedy layer-wise training without labels: the first layer learns from the data, the second from the first one's
// outputs, and so on. Works on the dense layers of any network whose hidden layers are sigmoids; their weights and
// biases are trained in place, so that supervised training continues from them.

// Dense layer of a network; the tensors are the network's own.
struct DenseLayer {
  std::string name;
  Tensor weight;  // [out, in]
  Tensor bias;    // [out]
};

// Layers to pre-train: all with a weight of rank 2 and a bias, in order, except the last, the output layer. Throws when
// there are none, or when one's inputs are not the outputs of the one before.
std::vector<DenseLayer> hidden_layers(const nn::Module& net);

// Result of pre-training one layer.
struct PretrainedLayer {
  std::string name;
  std::vector<double> losses;  // per epoch, averaged over samples
  double seconds = 0;
};
// Callback at the end of every epoch of a layer.
using PretrainListener = std::function<void(const std::string& layer, std::int64_t epoch, double loss)>;

struct GreedyOptions {
  std::int64_t epochs = 10;  // per layer
  std::int64_t batch = 64;
  std::int64_t seed = 1;
  int threads = 0;          // as in CompileOptions
  std::int64_t layers = 0;  // number of layers to train; 0: all
  PretrainListener listener{};
};

// Trains one layer after another. `step` is called once per layer with its index and returns a function that takes the
// outputs of the layers below for a batch, [n, in], updates the layer and returns the loss, a scalar; that function is
// compiled together with the layers below. Seeds the default generator.
using LayerStep = std::function<Tensor(const Tensor& below)>;
std::vector<PretrainedLayer> train_greedily(nn::Module& net, const std::shared_ptr<const Dataset>& data,
                                            const GreedyOptions& options,
                                            const std::function<LayerStep(const DenseLayer&, std::size_t)>& step);

}  // namespace starling::zoo
