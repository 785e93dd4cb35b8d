#include "starling/zoo/nets/rbm.h"

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/ops/api/activation.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/zoo/recipes.h"

namespace starling {
namespace {

constexpr double kBegin = 0.01;  // initial standard deviation of the weights, as in Hinton's guide

}  // namespace

Settings zoo::RbmOptions::settings() {
  using O = RbmOptions;
  return {setting("inputs", &O::inputs, "visible units; from the data unless given", {.min = 1, .max = 1e8}),
          setting("hidden", &O::hidden, "hidden units", {.min = 1, .max = 1e6}),
          setting("k", &O::k, "Gibbs steps of contrastive divergence", {.min = 1, .max = 1000}),
          choice("visible", &O::visible, {"bernoulli", "gaussian"}, "what the visible units hold")};
}

zoo::Rbm::Rbm(const RbmOptions& o) : Rbm(o, normal({o.hidden, o.inputs}, {.stddev = kBegin}), full({o.hidden}, 0)) {}

zoo::Rbm::Rbm(const RbmOptions& o, Tensor weight, Tensor bias) : options_(o) {
  check(weight.shape() == Shape{o.hidden, o.inputs} && bias.shape() == Shape{o.hidden},
        "[rbm] expected a weight [{}, {}] and a bias [{}], got {} and {}", o.hidden, o.inputs, o.hidden,
        to_string(weight.type()), to_string(bias.type()));
  const DType dtype = weight.dtype();
  weight_ = &add_parameter("weight", std::move(weight));
  bias_ = &add_parameter("bias", std::move(bias));
  visible_bias_ = &add_parameter("visible_bias", full({o.inputs}, 0, dtype));
}

Tensor zoo::Rbm::drive(const Tensor& v) const { return linear(v, *weight_, *bias_); }
Tensor zoo::Rbm::hidden(const Tensor& v) const { return sigmoid(drive(v)); }

Tensor zoo::Rbm::visible(const Tensor& h) const {
  const Tensor mean = matmul(h, *weight_) + *visible_bias_;
  return options_.visible == VisibleUnits::bernoulli ? sigmoid(mean) : mean;
}

Tensor zoo::Rbm::free_energy(const Tensor& v) const {
  const Tensor rest = sum(softplus(drive(v)), {.axes = {1}});
  if (options_.visible == VisibleUnits::gaussian) return sum(square(v - *visible_bias_), {.axes = {1}}) * 0.5 - rest;
  return neg(matmul(v, *visible_bias_)) - rest;
}

Tensor zoo::Rbm::gibbs(const Tensor& v, std::int64_t steps) const {
  const NoGrad no_grad;
  Tensor at = v;
  for (std::int64_t i = 0; i < steps; ++i) {
    const Tensor mean = visible(bernoulli(hidden(at)));
    at = options_.visible == VisibleUnits::bernoulli ? bernoulli(mean)
                                                     : mean + normal(mean.shape(), {.dtype = mean.dtype()});
  }
  return at.detach();
}

Tensor zoo::Rbm::forward(const Tensor& x) { return hidden(flatten(x)); }

nn::OwnLoss::Outputs zoo::Rbm::own_loss(std::span<const Tensor> fields) {
  const Tensor v = flatten(fields[0]);
  check(v.size(1) == options_.inputs, "[rbm] expected samples of {} numbers, got {}", options_.inputs,
        to_string(fields[0].type()));
  const Tensor chain = gibbs(v, options_.k);
  return {.loss = op::reduce_loss(free_energy(v) - free_energy(chain), {}, "rbm"),
          .prediction = visible(hidden(v)).detach(),
          .target = v};
}

void register_zoo_rbm(zoo::Table& table) {
  using O = zoo::RbmOptions;
  table.add_net<O>("rbm", "Restricted Boltzmann machine 784-500, trained by contrastive divergence.",
                   {.small = {.inputs = 20, .hidden = 8}, .small_batch = 16}, [](const O& o) {
                     return zoo::Recipe{zoo::maker([o] { return zoo::Rbm(o); }),
                                        {{.sample = {o.inputs}, .unit = o.visible == zoo::VisibleUnits::bernoulli}},
                                        "contrastive_divergence"};
                   });
}

}  // namespace starling
