#include "starling/zoo/pretrain/autoencoder.h"

#include <cmath>

#include "starling/ops/api/activation.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/unary.h"
#include "starling/optim/sgd.h"

namespace starling::zoo {
namespace {

// Decoder from a layer's outputs back to its inputs, with the optimizer of both directions.
class Decoder {
 public:
  Decoder(const DenseLayer& layer, bool linear_outputs, const AutoencoderPretrainOptions& o)
      : layer_(layer), linear_outputs_(linear_outputs), noise_(o.noise) {
    const std::int64_t in = layer.weight.size(1), out = layer.weight.size(0);
    const DType dtype = layer.weight.dtype();
    const double bound = 1 / std::sqrt(static_cast<double>(out));
    std::vector<Tensor> trained{layer.weight, layer.bias, variable("bias", full({in}, 0, dtype))};
    bias_ = trained.back();
    if (!o.tied) {
      weight_ = variable("weight", uniform({out, in}, {.low = -bound, .high = bound, .dtype = dtype}));
      trained.push_back(weight_);
    }
    optimizer_ = std::make_unique<optim::Sgd>(
        trained, optim::SgdOptions{.lr = o.lr, .momentum = o.momentum, .weight_decay = o.weight_decay});
  }

  Tensor step(const Tensor& x) {
    const Tensor seen = noise_ > 0 ? mul(x, bernoulli(x.shape(), 1 - noise_, x.dtype())) : x;
    const Tensor code = sigmoid(linear(seen, layer_.weight, layer_.bias));
    const Tensor back = matmul(code, weight_.defined() ? weight_ : layer_.weight) + bias_;
    const auto inputs = static_cast<double>(x.size(1));
    Tensor loss = (linear_outputs_ ? mse(back, x) * 0.5 : bce_with_logits(back, x)) * inputs;
    loss.backward();
    optimizer_->step();
    return loss;
  }

 private:
  Tensor variable(const char* name, Tensor value) const {
    value.set_requires_grad();
    value.set_name(layer_.name + ".decode_" + name);
    return value;
  }

  DenseLayer layer_;
  bool linear_outputs_;
  double noise_;
  Tensor weight_;  // undefined: tied
  Tensor bias_;
  std::unique_ptr<optim::Sgd> optimizer_;
};

}  // namespace

Settings AutoencoderPretrainOptions::settings() {
  using O = AutoencoderPretrainOptions;
  return {
      setting("epochs", &O::epochs, "passes over the data for each layer", {.min = 1, .max = 1e6}),
      setting("batch", &O::batch, "samples in a batch", {.min = 1, .max = 1 << 20}),
      setting("lr", &O::lr, "the learning rate", {.min = 0}),
      setting("momentum", &O::momentum, "share of the last update in the next", {.min = 0, .max = 1}),
      setting("weight_decay", &O::weight_decay, "share of the weights added to their gradient", {.min = 0}),
      setting("noise", &O::noise, "share of a layer's inputs zeroed while it learns", {.min = 0, .max = 0.99}),
      setting("tied", &O::tied, "decode with the transposed weight"),
      choice("visible", &O::visible, {"bernoulli", "gaussian"},
             "what the first layer sees: numbers in [0, 1], or any numbers"),
      setting("layers", &O::layers, "the first so many; 0: all but the last of the network", {.min = 0, .max = 1000}),
      setting("seed", &O::seed, "of the noise and the order of samples")};
}

std::vector<PretrainedLayer> pretrain_autoencoder(nn::Module& net, const std::shared_ptr<const Dataset>& data,
                                                  const AutoencoderPretrainOptions& o, PretrainListener listener) {
  const auto step = [&](const DenseLayer& layer, std::size_t number) -> LayerStep {
    auto decoder = std::make_shared<Decoder>(layer, number == 0 && o.visible == VisibleUnits::gaussian, o);
    return [decoder](const Tensor& below) { return decoder->step(below); };
  };
  return train_greedily(
      net, data,
      {.epochs = o.epochs, .batch = o.batch, .seed = o.seed, .layers = o.layers, .listener = std::move(listener)},
      step);
}

}  // namespace starling::zoo
