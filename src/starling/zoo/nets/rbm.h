#pragma once

#include "starling/base/settings.h"
#include "starling/nn/module.h"
#include "starling/nn/own_loss.h"

namespace starling::zoo {

// What the visible units of a restricted Boltzmann machine hold: 0 or 1 (numbers between count as probabilities), or
// any number with unit variance around its mean.
enum class VisibleUnits : std::uint8_t { bernoulli, gaussian };

struct RbmOptions {
  std::int64_t inputs = 784;  // visible units
  std::int64_t hidden = 500;
  std::int64_t k = 1;  // Gibbs steps of contrastive divergence
  VisibleUnits visible = VisibleUnits::bernoulli;
  static Settings settings();
};

// A restricted Boltzmann machine: p(v, h) ∝ exp(-E), E = -aᵀv - bᵀh - hᵀWv, or ½|v - a|² instead of -aᵀv for Gaussian
// visible units. [n, …] → the probabilities of the hidden units, [n, hidden]. Parameters: weight W [hidden, inputs],
// bias b of the hidden units, visible_bias a.
//
// Its loss is F(v) - F(v'), the free energy of the data over that of the chain k Gibbs steps later, in the mean over
// samples: the gradient of that is the update of contrastive divergence. The number itself says little; metrics see
// the reconstruction.
class Rbm : public nn::Module, public nn::OwnLoss {
 public:
  explicit Rbm(const RbmOptions& options = {});
  // On a weight and a bias that others have, such as a layer of a network.
  Rbm(const RbmOptions& options, Tensor weight, Tensor bias);
  Outputs own_loss(std::span<const Tensor> fields) override;

  Tensor hidden(const Tensor& v) const;                     // p(h = 1 | v)
  Tensor visible(const Tensor& h) const;                    // p(v = 1 | h), or the mean
  Tensor free_energy(const Tensor& v) const;                // -log Σ_h exp(-E), [n]
  Tensor gibbs(const Tensor& v, std::int64_t steps) const;  // sampled visible units after so many steps

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Tensor drive(const Tensor& v) const;  // Wv + b

  RbmOptions options_;
  Tensor* weight_;
  Tensor* bias_;
  Tensor* visible_bias_;
};

}  // namespace starling::zoo
