#include "starling/zoo/zoo.h"

namespace starling {

nn::Sequential zoo::lenet(const NetOptions& options) {
  nn::Sequential net;
  net.add("conv1", nn::Conv2d({.in = 1, .out = 20, .kernel = 5}))
      .add("pool1", nn::MaxPool2d())
      .add("tanh1", nn::Tanh())
      .add("conv2", nn::Conv2d({.in = 20, .out = 50, .kernel = 5}))
      .add("pool2", nn::MaxPool2d())
      .add("tanh2", nn::Tanh())
      .add("flatten", nn::Flatten())
      .add("fc1", nn::Linear({.in = 800, .out = 500}))
      .add("relu1", nn::Relu())
      .add("fc2", nn::Linear({.in = 500, .out = options.classes}));
  return net;
}

void register_zoo_lenet(zoo::Table& table) {
  table["lenet"] = {"LeNet: two convolutions with pooling and tanh, two dense layers.",
                    {1, 28, 28},
                    10,
                    64,
                    [](const zoo::NetOptions& o) { return zoo::lenet(o); },
                    {{}, {1, 28, 28}, 16}};
}

}  // namespace starling
