#pragma once

#include "starling/base/config/settings.h"
#include "starling/train/objective.h"

namespace starling {

struct ReconstructOptions {
  enum class Loss { mse, bce };
  enum class Noise { none, gaussian, mask };
  Loss loss = Loss::mse;      // bce: the network returns logits; samples are in [0, 1]
  Noise noise = Noise::none;  // added to the input while training; the target stays clean
  double amount = 0.3;        // standard deviation, or share of values set to 0
  static Settings settings();
};
// Reconstruction of the sample, for autoencoders; with noise, for denoising ones. Fields: float samples; further fields
// are ignored. The network returns as many values as a sample has.
ObjectivePtr reconstruct(const ReconstructOptions& options = {});

}  // namespace starling
