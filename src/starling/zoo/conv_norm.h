#pragma once

#include "starling/nn/module.h"

namespace starling::zoo {

enum class Activation : std::uint8_t { none, relu, relu6, silu };

struct ConvNormOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
  double eps = 1e-5;  // of the batch norm
  Activation activation = Activation::relu;
};

// A convolution without bias that keeps the size (divided by the stride), its batch norm, an activation: as
// conv<number>, norm<number>, act<number>. Weights begin as He et al. have them, so that gradients keep their size on
// the way back.
void add_conv_norm(nn::Sequential& to, const std::string& number, const ConvNormOptions& options);

}  // namespace starling::zoo
