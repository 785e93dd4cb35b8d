#include "starling/base/error.h"
#include "starling/nn/layers.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/zoo/nets/autoencoder.h"
#include "starling/zoo/recipes.h"

namespace starling {

Settings zoo::VaeOptions::settings() {
  using O = VaeOptions;
  return {setting("inputs", &O::inputs, "numbers in a sample; from the data unless given", {.min = 1, .max = 1e8}),
          setting("hidden", &O::hidden, "units of the layers before and behind the code", {.min = 1, .max = 1e6}),
          setting("code", &O::code, "dimensions of the code", {.min = 1, .max = 1e6}),
          setting("beta", &O::beta, "weight of the divergence of codes from the prior", {.min = 0, .max = 1e6})};
}

zoo::Vae::Vae(const VaeOptions& o) : options_(o) {
  const auto dense = [&](const char* name, std::int64_t in, std::int64_t out) {
    return add_module(name, std::make_shared<nn::Linear>(nn::LinearOptions{.in = in, .out = out}));
  };
  hidden_ = dense("encode", o.inputs, o.hidden);
  mean_ = dense("mean", o.hidden, o.code);
  log_variance_ = dense("log_variance", o.hidden, o.code);
  nn::Sequential decoder;
  decoder.add("fc1", nn::Linear({.in = o.code, .out = o.hidden}))
      .add("relu", nn::Relu())
      .add("fc2", nn::Linear({.in = o.hidden, .out = o.inputs}));
  decoder_ = add_module("decode", std::make_shared<nn::Sequential>(decoder));
}

zoo::Vae::Code zoo::Vae::encode(const Tensor& x) {
  const Tensor flat = flatten(x);
  check(flat.size(1) == options_.inputs, "[vae] expected samples of {} numbers, got {}", options_.inputs,
        to_string(x.type()));
  const Tensor h = relu((*hidden_)(flat));
  return {(*mean_)(h), (*log_variance_)(h)};
}

Tensor zoo::Vae::decode(const Tensor& code) { return (*decoder_)(code); }

Tensor zoo::Vae::sample(std::int64_t n) {
  return sigmoid(decode(normal({n, options_.code}, {.dtype = parameters()[0].dtype()})));
}

Tensor zoo::Vae::forward(const Tensor& x) { return sigmoid(decode(encode(x).mean)); }

nn::OwnLoss::Outputs zoo::Vae::own_loss(std::span<const Tensor> fields) {
  const Tensor x = flatten(fields[0]);
  const auto [mean, log_variance] = encode(x);
  const Tensor noise = normal(mean.shape(), {.dtype = mean.dtype()});
  const Tensor logits = decode(mean + exp(log_variance * 0.5) * noise);
  const Tensor misfit = sum(bce_with_logits(logits, x, {}, {.reduction = Reduction::none}), {.axes = {1}});
  const Tensor divergence = sum(square(mean) + exp(log_variance) - log_variance - 1.0, {.axes = {1}}) * 0.5;
  const Tensor losses = misfit + divergence * options_.beta;
  return {.loss = op::reduce_loss(losses, {}, "vae"), .prediction = sigmoid(logits), .target = x};
}

void register_zoo_vae(zoo::Table& table) {
  using O = zoo::VaeOptions;
  table.add_net<O>(
      "vae", "Variational autoencoder 784-400-20-400-784 with Bernoulli outputs.",
      {.small = {.inputs = 30, .hidden = 16, .code = 4}, .small_batch = 8}, [](const O& o) {
        return zoo::Recipe{zoo::maker([o] { return zoo::Vae(o); }), {{.sample = {o.inputs}, .unit = true}}, "elbo"};
      });
}

}  // namespace starling
