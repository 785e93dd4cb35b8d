#include "starling/zoo/nets/alexnet.h"

#include "starling/nn/layers.h"
#include "starling/zoo/recipes.h"

namespace starling {
namespace {

// Height of an image after the first convolution and the three poolings.
std::int64_t left_of(std::int64_t image) {
  std::int64_t size = (image + 2 * 2 - 11) / 4 + 1;
  for (int pool = 0; pool < 3; ++pool) size = (size - 3) / 2 + 1;
  return size;
}

template <class Options>
nn::Sequential alexnet_like(const Options& o, const std::int64_t (&published)[5]) {
  const std::int64_t left = left_of(o.image), dense = zoo::scaled(4096, o.width);
  std::int64_t filters[5];
  for (int i = 0; i < 5; ++i) filters[i] = zoo::scaled(published[i], o.width);
  nn::Sequential net;
  const nn::MaxPool2d pool({.kernel = 3, .stride = 2});
  net.add("conv1", nn::Conv2d({.in = o.channels, .out = filters[0], .kernel = 11, .stride = 4, .padding = 2}))
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
  if (o.dropout > 0) net.add("drop6", nn::Dropout(o.dropout));
  net.add("fc6", nn::Linear({.in = filters[4] * left * left, .out = dense})).add("relu6", nn::Relu());
  if (o.dropout > 0) net.add("drop7", nn::Dropout(o.dropout));
  net.add("fc7", nn::Linear({.in = dense, .out = dense}))
      .add("relu7", nn::Relu())
      .add("fc8", nn::Linear({.in = dense, .out = o.classes}));
  return net;
}

template <class Options>
Settings alexnet_settings() {
  return {zoo::classes_setting<Options>(), zoo::channels_setting<Options>(), zoo::image_setting<Options>(63),
          zoo::width_setting<Options>(),
          zoo::dropout_setting<Options>("share of the units dropped before the first two dense layers")};
}

template <class Options>
void add(zoo::Table& table, const char* name, const char* doc, std::int64_t batch,
         nn::Sequential (*make)(const Options&)) {
  table.add_net<Options>(
      name, doc,
      {.bench = {.dropout = 0}, .batch = batch, .small = {.classes = 10, .image = 64, .width = 0.125, .dropout = 0}},
      [make](const Options& o) {
        return zoo::image_classifier({o.channels, o.image, o.image}, o.classes, [o, make] { return make(o); });
      });
}

}  // namespace

Settings zoo::AlexnetOptions::settings() { return alexnet_settings<AlexnetOptions>(); }
Settings zoo::AlexnetOwtOptions::settings() { return alexnet_settings<AlexnetOwtOptions>(); }

nn::Sequential zoo::alexnet(const AlexnetOptions& o) { return alexnet_like(o, {96, 256, 384, 384, 256}); }
nn::Sequential zoo::alexnet_owt(const AlexnetOwtOptions& o) { return alexnet_like(o, {64, 192, 384, 256, 256}); }

void register_zoo_alexnet(zoo::Table& table) {
  add(table, "alexnet", "AlexNet in one column.", 64, zoo::alexnet);
  add(table, "alexnet_owt", "AlexNet as in \"one weird trick\", without dropout.", 128, zoo::alexnet_owt);
}

}  // namespace starling
