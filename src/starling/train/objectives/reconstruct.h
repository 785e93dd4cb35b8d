#pragma once

#include "starling/base/settings.h"
#include "starling/train/objective.h"

namespace starling {

struct ReconstructOptions {
  enum class Loss { mse, bce };
  enum class Noise { none, gaussian, mask };
  Loss loss = Loss::mse;      // bce: the network gives logits of numbers in [0, 1]
  Noise noise = Noise::none;  // on the way into the network while training; the target stays clean
  double amount = 0.3;        // standard deviation, or the share of numbers that become 0
  static Settings settings();
};
// The sample itself, as autoencoders are trained, with noise as denoising ones are. Fields: samples, floats; others are
// left alone. The network gives as many numbers as a sample has.
ObjectivePtr reconstruct(const ReconstructOptions& options = {});

}  // namespace starling
