#include "starling/zoo/width.h"

namespace starling {
namespace {

// What the first convolution and the three poolings leave of an image's height.
std::int64_t left_of(std::int64_t image) {
  std::int64_t size = (image + 2 * 2 - 11) / 4 + 1;
  for (int pool = 0; pool < 3; ++pool) size = (size - 3) / 2 + 1;
  return size;
}

nn::Sequential alexnet_like(const zoo::NetOptions& options, const std::int64_t (&published)[5]) {
  const std::int64_t left = left_of(zoo::or_published(options.image, 224)), dense = zoo::scaled(4096, options);
  std::int64_t filters[5];
  for (int i = 0; i < 5; ++i) filters[i] = zoo::scaled(published[i], options);
  nn::Sequential net;
  const nn::MaxPool2d pool({.kernel = 3, .stride = 2});
  net.add("conv1", nn::Conv2d({.in = 3, .out = filters[0], .kernel = 11, .stride = 4, .padding = 2}))
      .add("relu1", nn::Relu())
      .add("pool1", pool)
      .add("conv2", nn::Conv2d({.in = filters[0], .out = filters[1], .kernel = 5, .padding = 2}))
      .add("relu2", nn::Relu())
      .add("pool2", pool)
      .add("conv3", nn::Conv2d({.in = filters[1], .out = filters[2], .kernel = 3, .padding = 1}))
      .add("relu3", nn::Relu())
      .add("conv4", nn::Conv2d({.in = filters[2], .out = filters[3], .kernel = 3, .padding = 1}))
      .add("relu4", nn::Relu())
      .add("conv5", nn::Conv2d({.in = filters[3], .out = filters[4], .kernel = 3, .padding = 1}))
      .add("relu5", nn::Relu())
      .add("pool5", pool)
      .add("flatten", nn::Flatten());
  if (options.dropout) net.add("drop6", nn::Dropout(0.5));
  net.add("fc6", nn::Linear({.in = filters[4] * left * left, .out = dense})).add("relu6", nn::Relu());
  if (options.dropout) net.add("drop7", nn::Dropout(0.5));
  net.add("fc7", nn::Linear({.in = dense, .out = dense}))
      .add("relu7", nn::Relu())
      .add("fc8", nn::Linear({.in = dense, .out = options.classes}));
  return net;
}

}  // namespace

nn::Sequential zoo::alexnet(const NetOptions& options) { return alexnet_like(options, {96, 256, 384, 384, 256}); }

nn::Sequential zoo::alexnet_owt(const NetOptions& options) {
  NetOptions plain = options;
  plain.dropout = false;
  return alexnet_like(plain, {64, 192, 384, 256, 256});
}

void register_zoo_alexnet(zoo::Table& table) {
  const Shape image{3, 224, 224};
  const zoo::Setting small{{.dropout = false, .width = 0.125, .image = 64}, {3, 64, 64}, 4};
  table["alexnet"] = {
      "AlexNet in one column.", image, 1000, 64, [](const zoo::NetOptions& o) { return zoo::alexnet(o); }, small};
  table["alexnet_owt"] = {"AlexNet as in \"one weird trick\", without dropout.",        image, 1000, 128,
                          [](const zoo::NetOptions& o) { return zoo::alexnet_owt(o); }, small};
}

}  // namespace starling
