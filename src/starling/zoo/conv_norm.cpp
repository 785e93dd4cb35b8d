#include "starling/zoo/conv_norm.h"

#include "starling/nn/layers.h"
#include "starling/nn/normalize.h"

namespace starling::zoo {

void add_conv_norm(nn::Sequential& to, const std::string& number, const ConvNormOptions& o) {
  to.add("conv" + number, nn::Conv2d({.in = o.in,
                                      .out = o.out,
                                      .kernel = o.kernel,
                                      .stride = o.stride,
                                      .padding = o.kernel / 2,
                                      .groups = o.groups,
                                      .bias = false,
                                      .init = nn::Init::he_normal(true)}))
      .add("norm" + number, nn::BatchNorm2d({.channels = o.out, .eps = o.eps}));
  if (o.activation == Activation::relu) to.add("act" + number, nn::Relu());
  if (o.activation == Activation::relu6) to.add("act" + number, nn::Relu6());
  if (o.activation == Activation::silu) to.add("act" + number, nn::Silu());
}

}  // namespace starling::zoo
