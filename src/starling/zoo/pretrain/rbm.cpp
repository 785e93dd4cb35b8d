#include "starling/zoo/pretrain/rbm.h"

#include "starling/autograd/autograd.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/random.h"
#include "starling/ops/def/apply.h"
#include "starling/optim/sgd.h"

namespace starling::zoo {
namespace {

constexpr double kBegin = 0.01;  // initial standard deviation of the weights, as in Hinton's guide

void begin(const DenseLayer& layer) {
  const NoGrad no_grad;
  Tensor weight = layer.weight, bias = layer.bias;
  copy_into(weight, normal(weight.shape(), {.stddev = kBegin, .dtype = weight.dtype()}));
  copy_into(bias, full(bias.shape(), 0, bias.dtype()));
}

// Restricted Boltzmann machine on the tensors of a layer, with its optimizer.
struct Machine {
  Machine(const RbmOptions& options, const DenseLayer& layer, const optim::SgdOptions& sgd)
      : rbm(options, layer.weight, layer.bias), optimizer((rbm.set_name(layer.name), rbm.parameters()), sgd) {}
  Rbm rbm;
  optim::Sgd optimizer;
};

}  // namespace

Settings RbmPretrainOptions::settings() {
  using O = RbmPretrainOptions;
  return {
      setting("epochs", &O::epochs, "passes over the data for each layer", {.min = 1, .max = 1e6}),
      setting("batch", &O::batch, "samples in a batch", {.min = 1, .max = 1 << 20}),
      setting("lr", &O::lr, "the learning rate", {.min = 0}),
      setting("momentum", &O::momentum, "share of the last update in the next", {.min = 0, .max = 1}),
      setting("weight_decay", &O::weight_decay, "share of the weights added to their gradient", {.min = 0}),
      setting("k", &O::k, "Gibbs steps of contrastive divergence", {.min = 1, .max = 1000}),
      choice("visible", &O::visible, {"bernoulli", "gaussian"},
             "what the first layer sees: numbers in [0, 1], or around 0 with variance 1"),
      setting("layers", &O::layers, "the first so many; 0: all but the last of the network", {.min = 0, .max = 1000}),
      setting("seed", &O::seed, "of the weights, the noise and the order of samples")};
}

std::vector<PretrainedLayer> pretrain_rbm(nn::Module& net, const std::shared_ptr<const Dataset>& data,
                                          const RbmPretrainOptions& o, PretrainListener listener) {
  const auto step = [&](const DenseLayer& layer, std::size_t number) -> LayerStep {
    begin(layer);
    auto machine = std::make_shared<Machine>(
        RbmOptions{.inputs = layer.weight.size(1),
                   .hidden = layer.weight.size(0),
                   .k = o.k,
                   .visible = number == 0 ? o.visible : VisibleUnits::bernoulli},
        layer, optim::SgdOptions{.lr = o.lr, .momentum = o.momentum, .weight_decay = o.weight_decay});
    return [machine](const Tensor& below) {
      const auto out = machine->rbm.own_loss({&below, 1});
      Tensor error = mse(out.prediction, below).detach();
      out.loss.backward();
      machine->optimizer.step();
      return error;
    };
  };
  return train_greedily(
      net, data,
      {.epochs = o.epochs, .batch = o.batch, .seed = o.seed, .layers = o.layers, .listener = std::move(listener)},
      step);
}

}  // namespace starling::zoo
