#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "starling/data/dataset.h"
#include "starling/nn/module.h"

namespace starling::zoo {

// Greedy layer-wise training, before labels are seen: the first layer learns from the data, the second from what the
// first makes of the data, and so on. Works on the dense layers of any network whose hidden layers are sigmoids; their
// weights and biases are trained where they are, so that training goes on with them.

// A dense layer of a network: its own tensors.
struct DenseLayer {
  std::string name;
  Tensor weight;  // [out, in]
  Tensor bias;    // [out]
};

// The layers that are pre-trained: all with a weight of rank 2 and a bias, in order, but the last, which answers.
// Throws when there are none or when one's inputs are not the outputs of the one before.
std::vector<DenseLayer> hidden_layers(const nn::Module& net);

// What a layer came to.
struct PretrainedLayer {
  std::string name;
  std::vector<double> losses;  // of each epoch, in the mean over samples
  double seconds = 0;
};
// Told at the end of every epoch of a layer: which layer, which epoch, its loss.
using PretrainListener = std::function<void(const std::string& layer, std::int64_t epoch, double loss)>;

struct GreedyOptions {
  std::int64_t epochs = 10;  // of each layer
  std::int64_t batch = 64;
  std::int64_t seed = 1;
  int threads = 0;          // as in CompileOptions
  std::int64_t layers = 0;  // the first so many; 0: all
  PretrainListener listener{};
};

// Trains one layer after another. `step` is called once for each layer with its number and gives a function that takes
// what the layers below make of a batch, [n, in], updates the layer, and returns the loss, one number; that function is
// compiled together with the layers below. Seeds the default generator.
using LayerStep = std::function<Tensor(const Tensor& below)>;
std::vector<PretrainedLayer> train_greedily(nn::Module& net, std::shared_ptr<const Dataset> data,
                                            const GreedyOptions& options,
                                            const std::function<LayerStep(const DenseLayer&, std::size_t)>& step);

}  // namespace starling::zoo
