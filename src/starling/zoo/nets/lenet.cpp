#include "starling/zoo/nets/lenet.h"

#include "starling/nn/layers.h"
#include "starling/zoo/recipes.h"

namespace starling {

Settings zoo::LenetOptions::settings() {
  return {classes_setting<LenetOptions>(), channels_setting<LenetOptions>(), image_setting<LenetOptions>(16)};
}

nn::Sequential zoo::lenet(const LenetOptions& o) {
  const std::int64_t left = ((o.image - 4) / 2 - 4) / 2;
  nn::Sequential net;
  net.add("conv1", nn::Conv2d({.in = o.channels, .out = 20, .kernel = 5}))
      .add("pool1", nn::MaxPool2d())
      .add("tanh1", nn::Tanh())
      .add("conv2", nn::Conv2d({.in = 20, .out = 50, .kernel = 5}))
      .add("pool2", nn::MaxPool2d())
      .add("tanh2", nn::Tanh())
      .add("flatten", nn::Flatten())
      .add("fc1", nn::Linear({.in = 50 * left * left, .out = 500}))
      .add("relu1", nn::Relu())
      .add("fc2", nn::Linear({.in = 500, .out = o.classes}));
  return net;
}

void register_zoo_lenet(zoo::Table& table) {
  table.add_net<zoo::LenetOptions>(
      "lenet", "LeNet: two convolutions with pooling and tanh, two dense layers.", {.small_batch = 16},
      [](const zoo::LenetOptions& o) {
        return zoo::image_classifier({o.channels, o.image, o.image}, o.classes, [o] { return zoo::lenet(o); });
      });
}

}  // namespace starling
