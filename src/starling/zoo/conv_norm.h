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

// Adds a convolution without bias that keeps the size (divided by the stride), its batch norm and an activation, named
// conv<number>, norm<number>, act<number>. Weights use He initialisation by fan-out, which keeps the variance of
// gradients.
void add_conv_norm(nn::Sequential& to, const std::string& number, const ConvNormOptions& options);

}  // namespace starling::zoo
