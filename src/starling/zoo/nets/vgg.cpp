#include "starling/zoo/nets/vgg.h"

#include <array>

#include "starling/nn/layers.h"
#include "starling/nn/normalize.h"
#include "starling/zoo/recipes.h"

namespace starling {
namespace {

using zoo::VggOptions;

using Depths = std::array<int, 5>;  // convolutions before each pooling
constexpr Depths k11{1, 1, 2, 2, 2}, k13{2, 2, 2, 2, 2}, k16{2, 2, 3, 3, 3}, k19{2, 2, 4, 4, 4};
constexpr std::array<std::int64_t, 5> kFilters{64, 128, 256, 512, 512};

void add_dense(nn::Sequential& net, const std::string& name, std::int64_t in, std::int64_t out) {
  net.add(name, nn::Linear({.in = in, .out = out, .init = nn::Init::normal(0.01), .bias_init = nn::Init::constant(0)}));
}

nn::Sequential vgg(const VggOptions& o, const Depths& depths, bool norm) {
  nn::Sequential net;
  std::int64_t in = o.channels;
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    const std::int64_t out = zoo::scaled(kFilters[stage], o.width);
    for (int i = 0; i < depths[stage]; ++i) {
      const std::string number = std::to_string(stage + 1) + "_" + std::to_string(i + 1);
      net.add("conv" + number, nn::Conv2d({.in = in,
                                           .out = out,
                                           .padding = 1,
                                           .init = nn::Init::he_normal(true),
                                           .bias_init = nn::Init::constant(0)}));
      if (norm) net.add("norm" + number, nn::BatchNorm2d({.channels = out}));
      net.add("relu" + number, nn::Relu());
      in = out;
    }
    net.add("pool" + std::to_string(stage + 1), nn::MaxPool2d());
  }
  const std::int64_t left = o.image / 32, dense = zoo::scaled(4096, o.width);
  net.add("flatten", nn::Flatten());
  add_dense(net, "fc6", in * left * left, dense);
  net.add("relu6", nn::Relu());
  if (o.dropout > 0) net.add("drop6", nn::Dropout(o.dropout));
  add_dense(net, "fc7", dense, dense);
  net.add("relu7", nn::Relu());
  if (o.dropout > 0) net.add("drop7", nn::Dropout(o.dropout));
  add_dense(net, "fc8", dense, o.classes);
  return net;
}

void add(zoo::Table& table, const std::string& layers, const Depths& depths) {
  for (const bool norm : {false, true}) {
    table.add_net<VggOptions>(
        "vgg" + layers + (norm ? "_bn" : ""), "VGG with " + layers + " layers" + (norm ? " and batch norm." : "."),
        {.bench = {.dropout = 0}, .batch = 16, .small = {.classes = 10, .image = 32, .width = 0.125, .dropout = 0}},
        [depths, norm](const VggOptions& o) {
          return zoo::image_classifier({o.channels, o.image, o.image}, o.classes, [=] { return vgg(o, depths, norm); });
        });
  }
}

}  // namespace

Settings zoo::VggOptions::settings() {
  return {classes_setting<VggOptions>(), channels_setting<VggOptions>(), image_setting<VggOptions>(32),
          width_setting<VggOptions>(),
          dropout_setting<VggOptions>("share of the units dropped behind the first two dense layers")};
}

nn::Sequential zoo::vgg11(const VggOptions& o) { return vgg(o, k11, false); }
nn::Sequential zoo::vgg13(const VggOptions& o) { return vgg(o, k13, false); }
nn::Sequential zoo::vgg16(const VggOptions& o) { return vgg(o, k16, false); }
nn::Sequential zoo::vgg19(const VggOptions& o) { return vgg(o, k19, false); }
nn::Sequential zoo::vgg11_bn(const VggOptions& o) { return vgg(o, k11, true); }
nn::Sequential zoo::vgg13_bn(const VggOptions& o) { return vgg(o, k13, true); }
nn::Sequential zoo::vgg16_bn(const VggOptions& o) { return vgg(o, k16, true); }
nn::Sequential zoo::vgg19_bn(const VggOptions& o) { return vgg(o, k19, true); }

void register_zoo_vgg(zoo::Table& table) {
  add(table, "11", k11);
  add(table, "13", k13);
  add(table, "16", k16);
  add(table, "19", k19);
}

}  // namespace starling
