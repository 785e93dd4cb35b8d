#pragma once

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"
#include "starling/nn/own_loss.h"

namespace starling::zoo {

// Visible units of a restricted Boltzmann machine: 0 or 1 (numbers in between are probabilities), or normal with unit
// variance.
enum class VisibleUnits : std::uint8_t { bernoulli, gaussian };

struct RbmOptions {
  std::int64_t inputs = 784;  // visible units
  std::int64_t hidden = 500;
  std::int64_t k = 1;  // Gibbs steps of contrastive divergence
  VisibleUnits visible = VisibleUnits::bernoulli;
  static Settings settings();
};

// Restricted Boltzmann machine: p(v, h) ∝ exp(-E), E = -aᵀv - bᵀh - hᵀWv, or ½|v - a|² instead of -aᵀv for Gaussian
// visible units. [n, …] → the probabilities of the hidden units, [n, hidden]. Parameters: weight W [hidden, inputs],
// bias b of the hidden units, visible_bias a.
//
// Its loss is F(v) - F(v'), the free energy of the data minus that of the chain k Gibbs steps later, averaged over
// samples: its gradient is the update of contrastive divergence. The value itself is not a measure of progress; metrics
// see the reconstruction.
class Rbm : public nn::Module, public nn::OwnLoss {
 public:
  explicit Rbm(const RbmOptions& options = {});
  // Machine on an existing weight and bias, such as those of a network's layer.
  Rbm(const RbmOptions& options, Tensor weight, Tensor bias);
  Outputs own_loss(std::span<const Tensor> fields) override;

  Tensor hidden(const Tensor& v) const;                     // p(h = 1 | v)
  Tensor visible(const Tensor& h) const;                    // p(v = 1 | h), or the mean
  Tensor free_energy(const Tensor& v) const;                // -log Σ_h exp(-E), [n]
  Tensor gibbs(const Tensor& v, std::int64_t steps) const;  // visible units sampled after `steps` Gibbs steps

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
